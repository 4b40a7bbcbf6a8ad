//! Which validation files a run has opened: names are counted, not events, so reads, redraws and retries of one file
//! are one. A pass begins with each validation phase; what was opened outside one does not count.
//!
//! Pure: the watch is in `run.rs`. inotify tells no process, so a folder that two live runs share proves nothing.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// At most so many names are remembered for a pass: 8 bytes each and some more.
const NAMES: usize = 4_000_000;

/// The distinct files that one run opened.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    pass: HashSet<u64>,
    total: u64,
}

impl Opened {
    /// A validation begins: every file counts anew.
    pub fn begin(&mut self) {
        self.pass.clear();
    }

    /// A file was opened. Tells whether it is new in this pass.
    pub fn open(&mut self, path: &Path) -> bool {
        let mut hash = DefaultHasher::new();
        path.hash(&mut hash);
        let new = self.pass.len() < NAMES && self.pass.insert(hash.finish());
        self.total += u64::from(new);
        new
    }

    /// Distinct files of this pass.
    pub fn count(&self) -> u64 {
        self.pass.len() as u64
    }

    /// Distinct files, summed over all passes.
    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_once_in_a_pass_and_again_in_the_next() {
        let mut opened = Opened::default();
        for path in ["a", "b", "a"] {
            opened.open(Path::new(path));
        }
        assert_eq!((opened.count(), opened.total()), (2, 2));
        opened.begin();
        assert!(opened.open(Path::new("a")));
        assert_eq!((opened.count(), opened.total()), (1, 3));
    }
}
