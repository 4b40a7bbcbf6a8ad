//! Does the log come in blocks? A program whose stdout goes to a file keeps it back until a block is full, unless it is
//! told otherwise (`python -u`, `PYTHONUNBUFFERED=1`): then the log stands still for minutes while all is well.
//!
//! Two signs: growths by whole blocks, and a growth that tells of many moments at once after a long silence, as the last
//! one does when the program ends.
//!
//! Pure: growths and what they said in, a word out.

use std::mem::{Discriminant, discriminant};

use crate::job::observation::{Observation, Progress};

/// Python's text layer writes when 8,192 bytes are full, and ends with a line, so a little earlier; the C library and
/// pipes write multiples of 4,096.
const PYTHON: std::ops::RangeInclusive<u64> = 7_900..=8_192;
const PAGE: u64 = 4_096;
/// So many growths in a row must be blocks, at least so many seconds apart.
const ENOUGH: u32 = 2;
const APART: f64 = 5.0;
/// So many numbers of progress in one growth are no line that was written when it was printed.
const MOMENTS: u32 = 8;

/// How a log grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Blocks {
    /// Growths that were blocks, in a row.
    row: u32,
    growths: u32,
    last: Option<f64>,
    /// The newest growth was kept back.
    kept: bool,
    /// Numbers of progress since the newest growth, all of the kind that came first.
    moments: u32,
    newest: Option<(Discriminant<Observation>, u64)>,
}

impl Blocks {
    /// The next growth says this.
    pub fn told(&mut self, said: &Observation) {
        let (Observation::Step { step: number, .. }
        | Observation::Train(Progress { done: number, .. })
        | Observation::TrainBar(Progress { done: number, .. })
        | Observation::Bar(Progress { done: number, .. })) = said
        else {
            return;
        };
        let kind = discriminant(said);
        if self
            .newest
            .is_none_or(|(known, newest)| known == kind && newest != *number)
        {
            self.moments += 1;
            self.newest = Some((kind, *number));
        }
    }

    /// The log was looked at, and had grown by so many bytes at `at`.
    pub fn grew(&mut self, bytes: u64, at: f64) {
        if bytes == 0 {
            self.last.get_or_insert(at);
            return;
        }
        let silence = self.last.map(|last| at - last);
        let apart = silence.is_none_or(|silence| silence >= APART);
        let block = PYTHON.contains(&bytes) || bytes.is_multiple_of(PAGE);
        self.row = if block && apart { self.row + 1 } else { 0 };
        self.kept = self.moments >= MOMENTS && silence.is_some_and(|silence| silence >= APART);
        self.growths = self.growths.saturating_add(1);
        (self.moments, self.newest) = (0, None);
        self.last = Some(at);
    }

    /// The newest growths were blocks; unknown before there were enough of them.
    pub fn buffered(&self) -> Option<bool> {
        if self.kept {
            return Some(true);
        }
        (self.growths > ENOUGH).then_some(self.row >= ENOUGH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(growths: &[(u64, f64)]) -> Option<bool> {
        let mut blocks = Blocks::default();
        growths
            .iter()
            .for_each(|&(bytes, at)| blocks.grew(bytes, at));
        blocks.buffered()
    }

    #[test]
    fn blocks_far_apart_are_a_buffered_stdout() {
        // As recorded of a training that prints without -u.
        assert_eq!(
            after(&[(8144, 145.7), (8156, 269.2), (8156, 387.4)]),
            Some(true)
        );
        assert_eq!(
            after(&[(8144, 145.7), (8156, 269.2)]),
            None,
            "too few to tell"
        );
        assert_eq!(
            after(&[(8144, 1.0), (8156, 2.0), (8156, 3.0)]),
            Some(false),
            "a fast writer fills blocks, too"
        );
        assert_eq!(after(&[(57, 1.0), (277, 20.0), (133, 40.0)]), Some(false));
        assert_eq!(
            after(&[(4096, 1.0), (4096, 20.0), (4096, 40.0), (80, 50.0)]),
            Some(false)
        );
    }

    fn moments(numbers: impl Iterator<Item = u64>) -> Blocks {
        let mut blocks = Blocks::default();
        blocks.grew(0, 1.0);
        for done in numbers {
            blocks.told(&Observation::TrainBar(Progress { done, of: None }));
        }
        blocks
    }

    #[test]
    fn a_history_in_one_growth_is_a_buffered_stdout() {
        // As recorded of a short training whose output fills no block before its end.
        let mut whole = moments(0..76);
        whole.grew(3852, 275.5);
        assert_eq!(whole.buffered(), Some(true));
        whole.grew(52, 300.0);
        assert_eq!(whole.buffered(), None, "a line alone is none");
        let mut soon = moments(0..76);
        soon.grew(3852, 3.0);
        assert_eq!(soon.buffered(), None, "a fast trainer");
        let mut redrawn = moments(std::iter::repeat_n(7, 76));
        redrawn.grew(3852, 275.5);
        assert_eq!(redrawn.buffered(), None, "one moment, told often");
        let mut found = Blocks {
            last: None,
            ..moments(0..76)
        };
        found.grew(3852, 275.5);
        assert_eq!(
            found.buffered(),
            None,
            "what stood there before anybody looked"
        );
    }
}
