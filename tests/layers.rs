//! The modules stand in a row, and each imports only to its left; the clock, files, threads and the two foreign
//! interfaces have their places. What breaks this is named by file and line.
//!
//! Text is read, not syntax: rustfmt has run before, so an item ends where its indentation comes back. Tests and
//! comments are free.

use std::fs;
use std::path::{Path, PathBuf};

/// Each may use what stands to its left, and itself.
const ROW: [&str; 10] = [
    "metric", "job", "log", "config", "node", "state", "scenario", "run", "web", "cli",
];

/// Names that have a place, and the beginnings of the paths that may say them.
const PLACES: [(&str, &[&str]); 5] = [
    ("notify::", &["run/watch.rs"]),
    ("nvml_wrapper", &["node/nvml"]),
    ("SystemTime::now", &["run", "cli", "main.rs"]),
    ("Instant::now", &["run", "cli", "main.rs"]),
    ("Command::new", &["run", "cli", "main.rs"]),
];

/// What only the edges may touch. Every file that does not begin with one of `EDGES` is pure, a new one too.
const WORLD: [&str; 8] = [
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::os",
    "std::time::SystemTime",
    "std::time::Instant",
];
const EDGES: [&str; 11] = [
    "cli",
    "config.rs",
    "log/follow.rs",
    "main.rs",
    "node/nvml",
    "node/procfs",
    "run",
    "web.rs",
    "web/clients",
    "web/config",
    "web/door",
];
/// A lock is in the state, and where threads are.
const LOCKS: [&str; 4] = [
    "std::sync::Mutex",
    "std::sync::RwLock",
    "std::sync::Condvar",
    "std::sync::mpsc",
];
const LOCKERS: [&str; 6] = [
    "state.rs",
    "run",
    "node/nvml",
    "cli",
    "web/auth",
    "web/config",
];

/// A source file without its tests and comments.
struct Source {
    /// Below `src`.
    path: String,
    /// Number and text.
    lines: Vec<(usize, String)>,
}

impl Source {
    fn read(root: &Path, path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("a source file");
        let mut lines = Vec::new();
        let mut test: Option<usize> = None;
        for (number, line) in (1..).zip(text.lines()) {
            let indent = line.len() - line.trim_start().len();
            if line.trim_start().starts_with("#[cfg(test)]") {
                test = Some(indent);
            } else if let Some(begun) = test {
                let last = line.trim_end().ends_with([';', '}']) && indent == begun;
                test = test.filter(|_| !last);
            } else if !line.trim_start().starts_with("//") {
                let code = line.split(" // ").next().unwrap_or_default();
                lines.push((number, code.to_owned()));
            }
        }
        let below = path.strip_prefix(root).expect("below the root");
        Self {
            path: below.to_str().expect("text").to_owned(),
            lines,
        }
    }

    fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| {
            let rest = self.path.strip_prefix(place);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '.']))
        })
    }

    /// Every path that the file says, groups spelled out (`std::{fs, io}` is `std::fs` and `std::io`), with its line.
    fn paths(&self) -> Vec<(usize, String)> {
        let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let mut paths = Vec::new();
        // What stands before each open brace.
        let mut groups = Vec::<String>::new();
        let (mut path, mut before) = (String::new(), ' ');
        for (number, line) in &self.lines {
            for c in line.chars().chain(['\n']) {
                if is_path(c) {
                    if !is_path(before) {
                        path.clear();
                    }
                    path.push(c);
                } else if c == '{' {
                    let opens = is_path(before) && path.ends_with("::");
                    groups.push(if opens { path.clone() } else { String::new() });
                } else {
                    if is_path(before) {
                        paths.push((*number, groups.concat() + &path));
                    }
                    if c == '}' {
                        groups.pop();
                    }
                }
                before = c;
            }
        }
        paths
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.clone()];
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files.iter().map(|path| Source::read(&root, path)).collect()
}

/// What is wrong in all files, one line each.
fn all_wrong(of_file: impl Fn(&Source) -> Vec<(usize, String)>) {
    let wrong: Vec<String> = sources()
        .iter()
        .flat_map(|source| {
            let path = source.path.clone();
            of_file(source)
                .into_iter()
                .map(move |(number, what)| format!("src/{path}:{number}: {what}"))
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn modules_import_only_to_their_left() {
    let place = |module: &str| ROW.iter().position(|&known| known == module);
    all_wrong(|source| {
        let own = source.path.split(['/', '.']).next().unwrap_or_default();
        if ["lib", "main"].contains(&own) {
            return Vec::new();
        }
        let Some(own_place) = place(own) else {
            return vec![(
                1,
                format!("`{own}` has no place in the row {}", ROW.join(" < ")),
            )];
        };
        let depth = source.path.matches('/').count() + 1;
        let mut wrong = Vec::new();
        for (number, path) in source.paths() {
            let up = path.split("::").take_while(|&part| part == "super").count();
            let Some(other) = path.strip_prefix("crate::") else {
                if up >= depth {
                    wrong.push((number, format!("`{path}` leaves its module: say `crate::`")));
                }
                continue;
            };
            let other = other.split("::").next().unwrap_or_default();
            match place(other) {
                Some(place) if place <= own_place => {}
                Some(_) => wrong.push((
                    number,
                    format!(
                        "`{own}` may not use `{other}`, which is to its right in {}",
                        ROW.join(" < ")
                    ),
                )),
                None => wrong.push((number, format!("`{path}`: name the module in the row"))),
            }
        }
        wrong
    });
}

#[test]
fn the_clock_and_what_is_foreign_have_their_places() {
    all_wrong(|source| {
        let strays = PLACES.iter().filter(|(_, places)| !source.is_in(places));
        strays
            .flat_map(|(name, places)| {
                let says = source
                    .lines
                    .iter()
                    .filter(move |(_, line)| says(line, name));
                says.map(move |(number, _)| {
                    (
                        *number,
                        format!("`{name}` belongs into {}", places.join(", ")),
                    )
                })
            })
            .collect()
    });
}

#[test]
fn what_is_not_an_edge_is_pure() {
    all_wrong(|source| {
        let banned = |names: &'static [&str], places: &[&str]| {
            let names = if source.is_in(places) { &[] } else { names };
            let paths = source.paths().into_iter();
            let found = paths.filter(|(_, path)| {
                let under = |name: &&str| {
                    path.strip_prefix(*name)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
                };
                names.iter().any(under)
            });
            found
                .map(|(number, path)| {
                    (
                        number,
                        format!(
                            "`{path}`: this file is pure; the edges are {}",
                            EDGES.join(", ")
                        ),
                    )
                })
                .collect::<Vec<_>>()
        };
        [banned(&WORLD, &EDGES), banned(&LOCKS, &LOCKERS)].concat()
    });
}

/// A place that no file is in would let everything pass in a file of a new name.
#[test]
fn every_place_is_one() {
    let sources = sources();
    let rows = ROW
        .iter()
        .filter(|module| !sources.iter().any(|s| s.is_in(&[module])));
    let places = PLACES
        .iter()
        .flat_map(|(_, places)| *places)
        .chain(&EDGES)
        .chain(&LOCKERS);
    let empty = places.filter(|place| !sources.iter().any(|s| s.is_in(&[place])));
    assert_eq!(
        rows.chain(empty).collect::<Vec<_>>(),
        Vec::<&&str>::new(),
        "no such file in src"
    );
}

/// `name` at the beginning of a word.
fn says(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}
