//! A Python traceback that nothing caught: its head, its indented frames, and the line that names the exception.
//!
//! Tracebacks of several ranks stand between each other, so each rank's is followed apart. The head may be glued
//! behind a bar that had no end of line. Rich draws a box around the frames, but not around the last line.

use std::collections::BTreeSet;

use super::lines::Line;
use crate::job::observation::{Ended, Observation};

const HEAD: &str = "Traceback (most recent call last):";
const BOX: &str = "─ Traceback (most recent call last) ─";
/// At most so many are followed at once.
const OPEN: usize = 256;

/// The tracebacks under way, by rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracebacks(BTreeSet<Option<u64>>);

impl Tracebacks {
    /// What the line says as a part of a traceback, if it is the last.
    pub(super) fn read(&mut self, line: &Line<'_>) -> Option<Observation> {
        if is_head(line.text) {
            if self.0.len() < OPEN {
                self.0.insert(line.rank);
            }
            return None;
        }
        if self.0.is_empty() || line.text.starts_with(' ') {
            return None;
        }
        // Foreign lines may stand between the frames.
        let name = exception(line.text)?;
        self.0.remove(&line.rank).then_some(())?;
        Some(Observation::Raised(match name {
            "KeyboardInterrupt" => Ended::Cancelled,
            _ => Ended::Error,
        }))
    }
}

/// Rich's box stands in the first column where nothing caught the exception: one that was logged stands in the text's.
fn is_head(text: &str) -> bool {
    let boxed = || text.ends_with('╮') && !text.starts_with("   ") && text.contains(BOX);
    text.ends_with(HEAD) || boxed()
}

/// The name of the exception that the line names: `a.b.SomeError: ...` or `SomeError`.
fn exception(text: &str) -> Option<&str> {
    let path = text.split(": ").next()?.trim_end_matches(':');
    let name = path.rsplit('.').next()?;
    let is_path = path
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
    // A name of one's own is told by the module before it.
    let ends = [
        "Error",
        "Exception",
        "Interrupt",
        "Exit",
        "Iteration",
        "Warning",
    ];
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase())
        && (path.contains('.') || ends.iter().any(|end| name.ends_with(end)));
    (is_path && is_name).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_ends_it() {
        let mut tracebacks = Tracebacks::default();
        let mut read = |text: &str, rank: Option<u64>| {
            tracebacks.read(&Line {
                text,
                seen: 0,
                end: 0,
                rank,
                nested: false,
            })
        };
        assert_eq!(read("RuntimeError: only a word", None), None);
        assert_eq!(read(&format!(" 52%|5 | 6/9 [00:00]{HEAD}"), None), None);
        assert_eq!(read(HEAD, Some(1)), None);
        assert_eq!(read("  File \"a.py\", line 1, in <module>", None), None);
        assert_eq!(read("[WARN] foreign", None), None);
        let error = Some(Observation::Raised(Ended::Error));
        assert_eq!(
            read("torch.OutOfMemoryError: CUDA out of memory.", Some(1)),
            error
        );
        assert_eq!(read("RuntimeError: shard 3: unexpected end", None), error);
        assert_eq!(read("RuntimeError: again", None), None);
        assert_eq!(
            read("          ╭── Traceback (most recent call last) ──╮", None),
            None
        );
        assert_eq!(read("RuntimeError: logged", None), None);
        assert_eq!(
            read("╭── Traceback (most recent call last) ──╮", None),
            None
        );
        assert_eq!(read("│ train.py:12 in <module>              │", None), None);
        assert_eq!(
            read("╰───────────────────────────────────────╯", None),
            None
        );
        assert_eq!(read("OutOfMemoryError: CUDA out of memory.", None), error);
        read(HEAD, None);
        let stopped = Some(Observation::Raised(Ended::Cancelled));
        assert_eq!(read("KeyboardInterrupt", None), stopped);
    }
}
