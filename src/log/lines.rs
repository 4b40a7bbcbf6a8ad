//! Any chunks of bytes -> whole lines, and what belongs together as one.
//!
//! A line ends in `\n` or `\r`, so that a bar which is redrawn for hours is read frame by frame. A record that Rich
//! wrapped over several physical lines grows with each of them: it is handed out again, longer, and `Line::seen` tells
//! how much of it was there before, so that a reader never counts a match twice and never waits for a last line that
//! cannot be known as such. An unfinished last line is handed out once it rests, by the same rule.
//!
//! Pure: no clock (the caller says when the file rests) and bounded: a line keeps its newest `BOUND` bytes.

use std::sync::LazyLock;

use regex::Regex;

use super::ansi;

/// The longest line that is kept, in bytes. Rich tables and dictionaries are far below, bars without any end above.
pub const BOUND: usize = 64 * 1024;

/// The longest record that is kept together, in bytes: it is read anew with each of its lines. A step's metrics are a
/// third of it.
const RECORD: usize = 4 * 1024;

/// A line, or what is known of it by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its text: no control sequences, no columns that Rich adds.
    pub text: &'a str,
    /// So many bytes of `text` were handed out before: a match that ends there is an old one.
    pub seen: usize,
    /// The file's offset behind its last byte.
    pub end: u64,
}

/// The state between two chunks.
#[derive(Debug, Default)]
pub struct Lines {
    /// Raw bytes of the unfinished last line.
    tail: Vec<u8>,
    /// The file's offset behind the last byte taken in.
    offset: u64,
    /// The newest Rich record, which may go on.
    record: Option<Record>,
    /// Length of the text that the unfinished last line was handed out with.
    rested: usize,
}

/// A record that Rich may have wrapped.
#[derive(Debug)]
struct Record {
    /// The column in which its text begins, in each of its lines.
    indent: usize,
    /// The width of the text column, where the first line tells it.
    width: Option<usize>,
    text: String,
    /// The last piece is a part of one word that filled its line: no blank follows it.
    broken: bool,
}

impl Lines {
    /// Takes in the next bytes and hands out each line that they end.
    pub fn push(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(Line<'_>)) {
        while let Some(at) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (line, rest) = bytes.split_at(at);
            bytes = &rest[1..];
            self.offset += at as u64 + 1;
            if self.tail.is_empty() {
                self.hand_out(newest(line), true, each);
            } else {
                let mut whole = std::mem::take(&mut self.tail);
                whole.extend_from_slice(line);
                self.hand_out(newest(&whole), true, each);
                whole.clear();
                self.tail = whole;
            }
            self.rested = 0;
        }
        self.offset += bytes.len() as u64;
        self.tail.extend_from_slice(newest(bytes));
        // Cut only once in a while, so that a line without end costs no more than its bytes.
        if self.tail.len() > 2 * BOUND {
            let old = self.tail.len() - BOUND;
            self.tail.drain(..old);
            self.rested = 0;
        }
    }

    /// The file rests: hands out the unfinished last line, if it has not been handed out as it is.
    pub fn rest(&mut self, each: &mut dyn FnMut(Line<'_>)) {
        let tail = std::mem::take(&mut self.tail);
        let rested = self.hand_out(newest(&tail), false, each);
        self.tail = tail;
        self.rested = rested;
    }

    /// There is an unfinished last line.
    pub fn unfinished(&self) -> bool {
        !self.tail.is_empty()
    }

    /// The file begins anew: nothing that was unfinished goes on.
    pub fn begin(&mut self) {
        *self = Self::default();
    }

    /// Hands out one line and returns the length of its text.
    fn hand_out(&mut self, raw: &[u8], whole: bool, each: &mut dyn FnMut(Line<'_>)) -> usize {
        let plain = ansi::plain(raw);
        if plain.trim().is_empty() {
            return 0;
        }
        let (end, rested) = (self.offset, self.rested);
        if let Some(head) = Record::head(&plain) {
            each(Line {
                text: &head.text,
                seen: rested.min(head.text.len()),
                end,
            });
            let length = head.text.len();
            self.record = Some(head);
            return length;
        }
        if let Some(record) = &mut self.record
            && let Some(piece) = record.continuation(&plain)
        {
            let (before, broken) = (record.text.len(), record.broken);
            record.join(piece);
            let length = record.text.len();
            each(Line {
                text: &record.text,
                seen: before.max(rested.min(length)),
                end,
            });
            if !whole {
                record.text.truncate(before);
                record.broken = broken;
            }
            return length;
        }
        let text = plain.trim_end();
        each(Line {
            text,
            seen: rested.min(text.len()),
            end,
        });
        text.len()
    }
}

/// The newest bytes of a line that is too long.
fn newest(line: &[u8]) -> &[u8] {
    &line[line.len().saturating_sub(BOUND)..]
}

impl Record {
    /// The first line of a record: time (or blanks where the second has not changed), level, text, file:line.
    fn head(plain: &str) -> Option<Self> {
        static HEAD: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(
                r"^(?:\[[0-9:/., APM-]{5,24}\]|(?: {8,26})) (?:DEBUG   |INFO    |WARNING |ERROR   |CRITICAL) (?<text>\S.*?)(?<gap> +)(?<source>[\w.]+\.py:\d+)? *$",
            )
            .expect("a constant pattern")
        });
        if !plain.starts_with(['[', ' ']) {
            return None;
        }
        let found = HEAD.captures(plain)?;
        let text = found.name("text").expect("always there");
        let indent = text.start();
        let width = found.name("source").map(|source| {
            // One blank stands between the columns.
            plain[indent..source.start()]
                .chars()
                .count()
                .saturating_sub(1)
        });
        let broken = is_broken(text.as_str(), width);
        Some(Self {
            indent,
            width,
            text: text.as_str().to_owned(),
            broken,
        })
    }

    /// The text of a line that goes on with this record: it begins in the text's column, and the column of the source
    /// is blank.
    fn continuation<'a>(&self, plain: &'a str) -> Option<&'a str> {
        let text = plain.get(self.indent..)?;
        let indented = plain.as_bytes()[..self.indent].iter().all(|&b| b == b' ');
        (indented && !text.starts_with(' ') && text.ends_with(' ')).then(|| text.trim_end())
    }

    fn join(&mut self, piece: &str) {
        if self.text.len() + piece.len() > RECORD {
            self.text.clear();
        } else if !self.broken {
            self.text.push(' ');
        }
        self.text.push_str(piece);
        self.broken = is_broken(piece, self.width);
    }
}

/// Rich breaks a word only where it is longer than a line, and then fills the line with it.
fn is_broken(piece: &str, width: Option<usize>) -> bool {
    width.is_some_and(|width| piece.chars().count() == width) && !piece.contains(' ')
}

#[cfg(test)]
mod tests;
