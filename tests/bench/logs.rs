//! How fast logs are read, how soon a byte is a metric, and what that costs in memory. These are figures, not tests.
//!
//! `cargo bench --bench logs` prints all of them, `cargo bench --bench logs -- read` one part: `read`, `visible`,
//! `memory` or `long`. The logs are those in `tests/logs`, and those in the folder that `LOGS_DIR` names. A machine that
//! is shared makes times of little worth: compare the ratios, which are measured side by side.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it measures time and prints it"
)]

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

#[path = "logs/live.rs"]
mod live;
#[path = "logs/mtail.rs"]
mod mtail;
#[path = "logs/read.rs"]
mod read;
#[path = "../support/mod.rs"]
mod support;

const MB: f64 = 1e6;

type Part = (&'static str, fn(&Path));
const PARTS: [Part; 4] = [
    ("read", read::print),
    ("visible", live::visible),
    ("memory", live::memory),
    ("long", live::long),
];

fn main() {
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    for (name, print) in PARTS {
        if asked.is_empty() || asked.iter().any(|part| part == name) {
            let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
            println!("# {name}");
            print(folder.path());
            println!();
        }
    }
}

/// The recorded logs, by their names.
fn recorded() -> Vec<(String, Vec<u8>)> {
    let folders = [
        Some(PathBuf::from("tests/logs")),
        std::env::var_os("LOGS_DIR")
            .filter(|folder| !folder.is_empty())
            .map(PathBuf::from),
    ];
    let mut logs: Vec<(String, Vec<u8>)> = folders
        .into_iter()
        .flatten()
        .flat_map(|folder| {
            fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        })
        .filter_map(|entry| {
            let case = entry.expect("an entry").path();
            let name = case.file_name()?.to_string_lossy().into_owned();
            Some((name, fs::read(case.join("train.log")).ok()?))
        })
        .filter(|(_, log)| !log.is_empty())
        .collect();
    logs.sort();
    logs.dedup_by(|a, b| a.0 == b.0);
    logs
}

/// Writes each log to a file, whole and again and again, until all of them have about so many bytes, the same share for
/// each, so that a short log counts as much as a long one.
fn repeated(folder: &Path, bytes: usize) -> Vec<(String, PathBuf)> {
    let logs = recorded();
    let share = bytes.div_ceil(logs.len());
    logs.into_iter()
        .map(|(name, log)| {
            let path = folder.join(format!("{name}.log"));
            fs::write(&path, log.repeat(share.div_ceil(log.len()))).expect("written");
            (name, path)
        })
        .collect()
}
