//! Which validation files a run has opened: names are counted, not events, so reads, redraws and retries of one file
//! are one. A pass begins with each validation phase; what was opened outside one does not count.
//!
//! Pure: the watch is in `run/watch.rs`. inotify tells no process, so a folder that two runs validate on proves
//! nothing.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::job::{Files, Unix};

/// At most so many names are remembered for a pass: 8 bytes each and some more.
const NAMES: usize = 4_000_000;
/// So long a file that was opened outside a validation is remembered, in seconds, and so many of them.
const RECENT: f64 = 5.0;
const RECENT_FILES: usize = 10_000;

/// The distinct files that one run opened.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    pass: HashSet<u64>,
    total: u64,
    /// The validation that is counted, by its beginning.
    began: Option<Unix>,
    /// Not all files of this pass were seen: the watch began in the middle of it, or lost something.
    spoilt: bool,
    /// Files opened outside a validation, a moment ago: the log's word that one begins is read a little later.
    recent: Vec<(PathBuf, Unix)>,
}

impl Opened {
    /// Files were opened while the run does not validate.
    pub fn outside<'a>(&mut self, files: impl Iterator<Item = (&'a PathBuf, &'a Unix)>, now: Unix) {
        self.recent.retain(|(_, at)| now - at < RECENT);
        let room = RECENT_FILES.saturating_sub(self.recent.len());
        self.recent
            .extend(files.take(room).map(|(path, at)| (path.clone(), *at)));
    }

    /// Files were opened in the validation that began at `began`; the log was last written at `written`. The word that
    /// a validation begins was its newest, so what was opened after it belongs to the pass, too.
    pub fn inside<'a>(
        &mut self,
        files: impl Iterator<Item = (&'a PathBuf, &'a Unix)>,
        began: Option<Unix>,
        written: Option<Unix>,
    ) {
        if self.began != began {
            self.began = began;
            self.pass.clear();
            self.spoilt = false;
            let written = written.unwrap_or(Unix::INFINITY);
            for (path, at) in std::mem::take(&mut self.recent) {
                if at >= written {
                    self.open(&path);
                }
            }
        }
        files.for_each(|(path, _)| self.open(path));
    }

    /// All files of this run can be seen only since then.
    pub fn seen_since(&mut self, since: Unix) {
        self.spoilt |= self.began.is_none_or(|began| since > began);
    }

    /// Distinct files of this pass.
    pub fn files(&self) -> Files {
        Files {
            opened: self.pass.len() as u64,
            whole: !self.spoilt,
        }
    }

    /// Distinct files, summed over all passes.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn open(&mut self, path: &Path) {
        let mut hash = DefaultHasher::new();
        path.hash(&mut hash);
        if self.pass.len() < NAMES && self.pass.insert(hash.finish()) {
            self.total += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[(&str, Unix)]) -> Vec<(PathBuf, Unix)> {
        names
            .iter()
            .map(|(name, at)| (PathBuf::from(name), *at))
            .collect()
    }

    fn inside(opened: &mut Opened, names: &[(&str, Unix)], began: Unix) -> (u64, u64) {
        let files = files(names);
        opened.inside(
            files.iter().map(|(path, at)| (path, at)),
            Some(began),
            Some(began),
        );
        (opened.files().opened, opened.total())
    }

    #[test]
    fn names_count_once_in_a_pass_and_again_in_the_next() {
        let mut opened = Opened::default();
        assert_eq!(
            inside(&mut opened, &[("a", 1.0), ("b", 2.0), ("a", 3.0)], 1.0),
            (2, 2)
        );
        assert_eq!(inside(&mut opened, &[("b", 4.0)], 1.0), (2, 2));
        assert_eq!(inside(&mut opened, &[("a", 9.0)], 9.0), (1, 3));
    }

    #[test]
    fn a_pass_that_was_not_seen_from_its_beginning_is_not_whole() {
        let mut opened = Opened::default();
        inside(&mut opened, &[("a", 1.0)], 1.0);
        opened.seen_since(0.5);
        assert_eq!(
            opened.files(),
            Files {
                opened: 1,
                whole: true
            }
        );
        opened.seen_since(1.5);
        opened.seen_since(0.5);
        assert_eq!(
            opened.files(),
            Files {
                opened: 1,
                whole: false
            }
        );
        inside(&mut opened, &[("a", 9.0)], 9.0);
        assert!(
            opened.files().whole,
            "the next pass is seen from its beginning"
        );
    }

    #[test]
    fn what_was_opened_after_the_logs_word_counts_even_if_it_was_seen_before_it() {
        let mut opened = Opened::default();
        let before = files(&[("train", 8.0), ("first", 9.5)]);
        opened.outside(before.iter().map(|(path, at)| (path, at)), 10.0);
        assert_eq!(inside(&mut opened, &[("second", 10.0)], 9.0), (2, 2));
    }
}
