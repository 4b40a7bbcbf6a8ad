//! Recorded rotations, done again to a log that is followed: the page says in the end what it says of the same bytes in
//! one file that was never rotated.
//!
//! A case is a folder in `tests/rotated`: `timeline.tsv` (when which inode had how many bytes, under which name), the
//! files as they were left, and their inodes in `meta.json`. What was cut or moved before anybody looked is lost to any
//! follower, so each rotation waits until all before it is read; nothing else does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::stage::Exporter;
use super::support::series;

/// A line of the timeline.
struct Row {
    size: usize,
    inode: u64,
    name: String,
}

/// A file that grows as a recorded one did.
struct Growing {
    file: File,
    inode: u64,
    source: Vec<u8>,
    size: usize,
}

impl Growing {
    fn grow(&mut self, size: usize) {
        let gained = &self.source[self.size..size.max(self.size)];
        // As the writer did: a hole is not written.
        let zeros = gained.iter().take_while(|&&byte| byte == 0).count();
        let at = (self.size + zeros) as u64;
        self.file
            .write_all_at(&gained[zeros..], at)
            .expect("written");
        self.size += gained.len();
    }

    fn all(&mut self) {
        self.grow(self.source.len());
    }
}

struct Case {
    folder: PathBuf,
    rows: Vec<Row>,
    /// What the files held, by inode.
    files: BTreeMap<u64, Vec<u8>>,
    /// What the one file held between its cuts, where it was cut.
    stretches: Vec<Vec<u8>>,
}

impl Case {
    fn read(name: &str) -> Self {
        let folder = Path::new("tests/rotated").join(name);
        let text = |name: &str| fs::read_to_string(folder.join(name)).expect(name);
        let timeline = text("timeline.tsv");
        let rows = timeline
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| {
                let mut fields = line.split('\t').skip(1);
                let mut next = || fields.next();
                Row {
                    size: next().and_then(|size| size.parse().ok()).expect("a size"),
                    inode: next()
                        .and_then(|inode| inode.parse().ok())
                        .expect("an inode"),
                    name: next().unwrap_or("train.log").to_owned(),
                }
            });
        let rows: Vec<Row> = rows.collect();
        let meta: serde_json::Value = serde_json::from_str(&text("meta.json")).expect("JSON");
        let inodes = meta["inodes"].as_object().expect("inodes").iter();
        let files = inodes
            // The live name is the newest file's second one where it is a hard link.
            .filter_map(|(name, inode)| Some((inode.as_u64()?, fs::read(folder.join(name)).ok()?)))
            .collect();
        let live = rows.iter().filter(|row| row.name == "train.log");
        let sizes: Vec<(u64, usize)> = live.map(|row| (row.inode, row.size)).collect();
        let cut = sizes
            .windows(2)
            .any(|two| two[0].0 == two[1].0 && two[1].1 < two[0].1);
        let names = ["train.log.2", "train.log.1", "train.log"]
            .into_iter()
            .filter(|_| cut);
        let stretches = names
            .map(|name| fs::read(folder.join(name)).expect(name))
            .collect();
        Self {
            folder,
            rows,
            files,
            stretches,
        }
    }

    /// All that was ever written, in order, without holes.
    fn whole(&self) -> Vec<u8> {
        let mut inodes: Vec<u64> = self.rows.iter().map(|row| row.inode).collect();
        let mut seen = BTreeSet::new();
        inodes.retain(|&inode| seen.insert(inode));
        let files = inodes.iter().filter_map(|inode| self.files.get(inode));
        let parts: Vec<&Vec<u8>> = match self.stretches.as_slice() {
            [] => files.collect(),
            cut => cut.iter().collect(),
        };
        let bytes = parts.into_iter().flatten().copied();
        bytes.filter(|&byte| byte != 0).collect()
    }

    fn source(&self, inode: u64) -> Vec<u8> {
        self.stretches
            .first()
            .unwrap_or_else(|| &self.files[&inode])
            .clone()
    }

    /// A writer that never looks at its file's name again writes on under another one.
    fn goes_on(&self, inode: u64) -> bool {
        self.stretches.is_empty()
            && self
                .rows
                .iter()
                .any(|row| row.inode == inode && row.name != "train.log")
    }

    /// Does it all again; `moves` is told how many bytes were written before each rotation.
    fn play(&self, folder: &Path, moves: impl Fn(usize)) {
        fs::create_dir(folder).expect("a folder");
        let log = folder.join("train.log");
        let linked = self.files.len() > 2;
        let (mut live, mut old) = (None::<Growing>, None::<Growing>);
        let (mut stretch, mut generation, mut written) = (0, 0, 0);
        for row in &self.rows {
            if row.name != "train.log" {
                if let Some(old) = old.as_mut().filter(|old| old.inode == row.inode) {
                    old.grow(row.size);
                }
                continue;
            }
            match live.as_mut() {
                Some(file) if file.inode == row.inode && row.size < file.size => {
                    file.all();
                    written += file.source.iter().filter(|&&byte| byte != 0).count();
                    moves(written);
                    stretch += 1;
                    fs::copy(&log, folder.join(format!("train.log.{stretch}"))).expect("copied");
                    file.file.set_len(0).expect("cut");
                    (file.source, file.size) = (self.stretches[stretch].clone(), 0);
                }
                Some(file) if file.inode == row.inode => {}
                before => {
                    if let Some(file) = before {
                        if !self.goes_on(file.inode) {
                            file.all();
                        }
                        written += file.size;
                        moves(written);
                    }
                    generation += 1;
                    let next = folder.join(format!("rot.{generation}"));
                    if linked {
                        // As rotatelogs -L: a hard link to the new file takes the name in one step.
                        fs::write(&next, "").expect("made");
                        fs::hard_link(&next, folder.join("link")).expect("linked");
                        fs::rename(folder.join("link"), &log).expect("moved");
                    } else {
                        let _ = fs::rename(&log, folder.join(format!("train.log.{generation}")));
                        File::create(&log).expect("made");
                    }
                    let file = File::options().write(true).open(&log).expect("a log");
                    let source = self.source(row.inode);
                    old = live.replace(Growing {
                        file,
                        inode: row.inode,
                        source,
                        size: 0,
                    });
                }
            }
            live.as_mut().expect("just made").grow(row.size);
        }
        live.iter_mut().chain(&mut old).for_each(Growing::all);
    }
}

/// What the page says of a run, but when it was and where it stands.
fn told(page: &str, run: &str) -> BTreeSet<String> {
    let own = format!("run=\"{run}\"");
    let timely = [
        "timestamp",
        "seconds",
        "rotations",
        "run_info",
        "block_buffered",
        "enrolled",
        // This test is who writes.
        "training_process",
        "suspended",
    ];
    series(page)
        .filter(|(name, _)| name.contains(&own) && !timely.iter().any(|word| name.contains(word)))
        .map(|(name, value)| format!("{} {value}", name.replace(&own, "")))
        .collect()
}

#[test]
fn a_rotated_log_says_in_the_end_what_it_says_unrotated() {
    let names = [
        "copytruncate_append",
        "copytruncate_tee",
        "rename_create",
        "rotatelogs",
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let logs = names.map(|name| {
        let (rotated, whole) = (at(name).join("train.log"), at(&format!("{name}.log")));
        let rotated = format!("- {{path: {}, run: {name}}}\n", rotated.display());
        format!(
            "{rotated}- {{path: {}, run: whole {name}}}\n",
            whole.display()
        )
    });
    let exporter = Exporter::follows(folder.path(), &logs.concat());
    for name in names {
        let case = Case::read(name);
        let whole = case.whole();
        assert!(
            whole.len() > 10_000,
            "{}: all is there",
            case.folder.display()
        );
        fs::write(at(&format!("{name}.log")), &whole).expect("written");
        let bytes = |run: &str| format!("training_log_bytes_total{{run=\"{run}\"}}");
        case.play(&at(name), |written| {
            exporter.reaches(&bytes(name), written as f64)
        });
        for run in [name.to_owned(), format!("whole {name}")] {
            exporter.reaches(&bytes(&run), whole.len() as f64);
        }
        // The last word may follow the last byte.
        let both = || {
            let page = exporter.page();
            (told(&page, name), told(&page, &format!("whole {name}")))
        };
        let agree = |(rotated, whole): &(BTreeSet<_>, _)| rotated == whole;
        let (rotated, unrotated) = (0..100)
            .map(|_| (thread::sleep(Duration::from_millis(50)), both()).1)
            .find(agree)
            .unwrap_or_else(both);
        let differs: Vec<_> = rotated.symmetric_difference(&unrotated).collect();
        assert!(differs.is_empty(), "{name}: {differs:?}");
        assert!(
            rotated.contains("training_epoch{} 3"),
            "{name}: {rotated:?}"
        );
    }
}
