//! A log in a folder of its own, and what one look at it gives.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use training_exporter::log::follow::{Follower, Gained};
use training_exporter::log::lines::Lines;

/// More than any log of these tests takes.
pub(crate) const TURNS: usize = 20;

/// A folder with a log that is followed.
pub(crate) struct Stage {
    pub(crate) dir: TempDir,
    pub(crate) log: PathBuf,
    pub(crate) follower: Follower,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().expect("a folder");
        let log = dir.path().join("train.log");
        let follower = Follower::new(&log);
        Self { dir, log, follower }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// One look: the bytes as text, with `<..>` for all else that was told.
    pub(crate) fn look(&mut self) -> String {
        let mut seen = Vec::new();
        let result = self.follower.poll(&mut |gained| match gained {
            Gained::Bytes(bytes) => seen.extend_from_slice(bytes),
            Gained::Rotated => seen.extend_from_slice(b"<rotated>"),
            Gained::Truncated => seen.extend_from_slice(b"<cut>"),
        });
        match result {
            Ok(false) => {}
            Ok(true) => seen.extend_from_slice(b"<more>"),
            Err(e) => seen.extend_from_slice(format!("<{e}>").as_bytes()),
        }
        String::from_utf8(seen).expect("text")
    }
}

/// The whole lines that the log gained, however many turns it takes.
pub(crate) fn lines(follower: &mut Follower, lines: &mut Lines) -> Vec<String> {
    let mut texts = Vec::new();
    for _ in 0..TURNS {
        let more = follower.poll(&mut |gained| match gained {
            Gained::Bytes(bytes) => {
                lines.push(bytes, &mut |line| texts.push(line.text.to_owned()));
            }
            Gained::Rotated | Gained::Truncated => lines.begin(),
        });
        if !more.expect("a log that can be read") {
            return texts;
        }
    }
    panic!("it never ends");
}

/// Opens as a shell does for `>> log`.
pub(crate) fn appending(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.append(true).create(true).open(path).expect("a log")
}

pub(crate) fn append(path: &Path, text: &str) {
    write!(appending(path), "{text}").expect("written");
}
