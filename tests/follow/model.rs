//! Any sequence of what can happen to a log, beside a model that says in few words which lines must be seen.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use training_exporter::log::follow::Follower;
use training_exporter::log::lines::Lines;

use super::stage::{Stage, appending, lines};

/// What can happen to a log.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The writer writes a line to the file that it holds.
    Write,
    /// The file is moved away; the writer still holds it.
    Move,
    /// An empty file is put in the place of one that is gone.
    Create,
    /// The writer opens the path again.
    Reopen,
    /// The file under the path is cut to nothing.
    Cut,
    Delete,
    /// The path is opened as a shell does for `> log`, and has other content before anybody can look.
    Overwrite,
    /// A new file takes the path in one step, and the writer goes on in it.
    Replace,
    /// The same by a second name of a file that has a line already, as rotatelogs does.
    HardLink,
    /// The path is made a link to another file, which has a line already.
    Switch,
    /// The folder is deleted with all that is in it, and made again.
    Folder,
    Look,
    /// The exporter is started again: it remembers nothing.
    Restart,
}

/// One file as the model knows it.
#[derive(Default)]
struct Content {
    lines: Vec<u32>,
    cuts: u32,
}

/// What must be seen since the newest start, in few words: everything, but what was cut before a look, what was in a file that no look found
/// under the path, and what an old writer writes once the next file has a line.
#[derive(Default)]
struct Model {
    files: Vec<Content>,
    there: Option<usize>,
    held: Option<usize>,
    read: usize,
    cuts: u32,
    seen: Vec<u32>,
}

impl Model {
    fn create(&mut self) -> usize {
        *self.there.get_or_insert_with(|| {
            self.files.push(Content::default());
            self.files.len() - 1
        })
    }

    fn new_file(&mut self) -> usize {
        self.there = None;
        self.create()
    }

    /// The file under the path has this line and nothing else.
    fn begin_again(&mut self, line: u32) {
        let there = self.create();
        let file = &mut self.files[there];
        file.cuts += u32::from(!file.lines.is_empty());
        file.lines = vec![line];
    }

    fn restart(&mut self) {
        (self.held, self.read) = (None, 0);
        self.seen.clear();
    }

    fn look(&mut self) {
        self.read_held();
        let next = self.there.filter(|&there| self.held != Some(there));
        if let Some(there) = next
            && (self.held.is_none() || !self.files[there].lines.is_empty())
        {
            (self.held, self.read, self.cuts) = (Some(there), 0, self.files[there].cuts);
            self.read_held();
        }
    }

    fn read_held(&mut self) {
        let Some(held) = self.held else { return };
        let file = &self.files[held];
        if file.cuts != self.cuts {
            (self.read, self.cuts) = (0, file.cuts);
        }
        self.seen.extend(&file.lines[self.read..]);
        self.read = file.lines.len();
    }
}

fn follower(stage: &Stage, far: bool) -> Follower {
    let follower = Follower::new(&stage.log);
    if far { follower.far() } else { follower }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn every_line_is_seen_once_and_in_order(
        events in prop::collection::vec(
            prop_oneof![
                6 => Just(Event::Write), 1 => Just(Event::Move), 1 => Just(Event::Create), 2 => Just(Event::Reopen),
                1 => Just(Event::Cut), 1 => Just(Event::Delete), 1 => Just(Event::Replace), 4 => Just(Event::Look),
                1 => Just(Event::Restart), 1 => Just(Event::Overwrite), 1 => Just(Event::HardLink),
                1 => Just(Event::Switch), 1 => Just(Event::Folder),
            ],
            0..60,
        ),
        far: bool,
    ) {
        let mut stage = Stage::new();
        stage.follower = follower(&stage, far);
        // What is told of a far file is doubted over some looks.
        let looks = if far { 5 } else { 1 };
        let (mut state, mut seen) = (Lines::default(), Vec::new());
        let (mut model, mut holds) = (Model::default(), 0);
        let mut writer = appending(&stage.log);
        model.create();
        for (n, event) in (0_u32..).zip(events.into_iter().chain([Event::Look])) {
            match event {
                Event::Write => {
                    writeln!(writer, "line {n}").expect("written");
                    model.files[holds].lines.push(n);
                }
                Event::Move => {
                    let _ = fs::rename(&stage.log, stage.path(&format!("train.log.{n}")));
                    model.there = None;
                }
                Event::Create => {
                    appending(&stage.log);
                    model.create();
                }
                Event::Reopen => {
                    writer = appending(&stage.log);
                    holds = model.create();
                }
                Event::Cut => {
                    if let Some(there) = model.there {
                        let file = &mut model.files[there];
                        file.cuts += u32::from(!file.lines.is_empty());
                        file.lines.clear();
                        File::create(&stage.log).expect("cut");
                    }
                }
                Event::Delete => {
                    let _ = fs::remove_file(&stage.log);
                    model.there = None;
                }
                Event::Replace => {
                    writer = appending(&stage.path("next"));
                    fs::rename(stage.path("next"), &stage.log).expect("moved");
                    holds = model.new_file();
                }
                Event::Overwrite => {
                    fs::write(&stage.log, format!("line {n}\n")).expect("written");
                    model.begin_again(n);
                    (writer, holds) = (appending(&stage.log), model.create());
                }
                Event::HardLink => {
                    let (new, link) = (stage.path(&format!("rot.{n}")), stage.path("link"));
                    writer = appending(&new);
                    writeln!(writer, "line {n}").expect("written");
                    fs::hard_link(new, &link).expect("linked");
                    fs::rename(link, &stage.log).expect("moved");
                    holds = model.new_file();
                    model.begin_again(n);
                }
                Event::Switch => {
                    let (run, link) = (stage.path(&format!("run.{n}")), stage.path("link"));
                    writer = appending(&run);
                    writeln!(writer, "line {n}").expect("written");
                    symlink(run, &link).expect("linked");
                    fs::rename(link, &stage.log).expect("moved");
                    holds = model.new_file();
                    model.begin_again(n);
                }
                Event::Folder => {
                    fs::remove_dir_all(stage.dir.path()).expect("deleted");
                    fs::create_dir(stage.dir.path()).expect("made");
                    model.there = None;
                }
                Event::Restart => {
                    stage.follower = follower(&stage, far);
                    state = Lines::default();
                    seen.clear();
                    model.restart();
                }
                Event::Look => {
                    let can = stage.follower.is_open() || model.there.is_some();
                    for _ in 0..if can { looks } else { 0 } {
                        seen.extend(lines(&mut stage.follower, &mut state));
                    }
                    model.look();
                }
            }
        }
        let expected: Vec<String> = model.seen.iter().map(|n| format!("line {n}")).collect();
        prop_assert_eq!(&seen, &expected);
        prop_assert!(model.seen.is_sorted_by(|a, b| a < b), "the model itself goes on");
    }
}
