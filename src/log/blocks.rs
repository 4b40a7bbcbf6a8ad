//! Does the log come in blocks? A program whose stdout goes to a file keeps it back until a block is full, unless it is
//! told otherwise (`python -u`, `PYTHONUNBUFFERED=1`): then the log stands still for minutes while all is well.
//!
//! Pure: growths in, a word out.

/// Python's text layer writes when 8,192 bytes are full, and ends with a line, so a little earlier; the C library and
/// pipes write multiples of 4,096.
const PYTHON: std::ops::RangeInclusive<u64> = 7_900..=8_192;
const PAGE: u64 = 4_096;
/// So many growths in a row must be blocks, at least so many seconds apart.
const ENOUGH: u32 = 2;
const APART: f64 = 5.0;

/// How a log grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Blocks {
    /// Growths that were blocks, in a row.
    row: u32,
    growths: u32,
    last: Option<f64>,
}

impl Blocks {
    /// The log grew by so many bytes at `at`.
    pub fn grew(&mut self, bytes: u64, at: f64) {
        let apart = self.last.is_none_or(|last| at - last >= APART);
        let block = PYTHON.contains(&bytes) || (bytes > 0 && bytes.is_multiple_of(PAGE));
        self.row = if block && apart { self.row + 1 } else { 0 };
        self.growths = self.growths.saturating_add(1);
        self.last = Some(at);
    }

    /// The newest growths were blocks; unknown before there were enough of them.
    pub fn buffered(&self) -> Option<bool> {
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
}
