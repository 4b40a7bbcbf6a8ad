//! Any chunks of bytes -> whole lines, and what belongs together as one.
//!
//! A line ends in `\n` or `\r`, so that a bar which is redrawn for hours is read frame by frame. What others put around
//! it (`envelope`) is taken off, and lines of several streams that stand between each other are kept apart. A record
//! that Rich wrapped over several physical lines grows with each of them: it is handed out again, longer, and
//! `Line::seen` tells how much of it was there before, so that a reader never counts a match twice and never waits for
//! a last line that cannot be known as such. An unfinished last line is handed out once it rests, by the same rule; one
//! that a daemon writes (a container's runtime, rsyslog) waits for its end, which comes.
//!
//! Pure: no clock (the caller says when the file rests) and bounded: a line keeps its newest `BOUND` bytes.

mod record;

use super::ansi;
use super::envelope::{self, DOCKER, Header, Labels};
use record::Record;

/// The longest line that is kept, in bytes. Rich tables and dictionaries are far below, bars without any end above.
pub const BOUND: usize = 64 * 1024;

/// At most so many streams are kept apart; ranks of one node with two streams each are far below.
const STREAMS: usize = 256;

/// A line, or what is known of it by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its text: no envelope, no control sequences, no columns that Rich adds.
    pub text: &'a str,
    /// So many bytes of `text` were handed out before: a match that ends there is an old one.
    pub seen: usize,
    /// The file's offset behind its last byte.
    pub end: u64,
    /// The rank that wrote it, where an envelope tells.
    pub rank: Option<u64>,
    /// A bar below another one.
    pub nested: bool,
}

/// The state between two chunks.
#[derive(Debug, Default)]
pub struct Lines {
    /// Raw bytes of the unfinished last line.
    tail: Vec<u8>,
    /// The file's offset behind the last byte taken in.
    offset: u64,
    /// What stands before the physical line under way, up to its `\n`; absent before it is known.
    header: Option<Header>,
    labels: Labels,
    /// The newest whole line was a daemon's record.
    records: bool,
    streams: Vec<Stream>,
}

/// What is unfinished in one stream.
#[derive(Debug, Default)]
struct Stream {
    name: Vec<u8>,
    rank: Option<u64>,
    /// Raw bytes of a line that goes on with the next record.
    partial: Vec<u8>,
    /// The newest Rich record, which may go on.
    record: Option<Record>,
    /// Length of the text that the unfinished last line was handed out with.
    rested: usize,
}

impl Lines {
    /// Takes in the next bytes and hands out each line that they end.
    pub fn push(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(Line<'_>)) {
        while let Some(at) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (line, rest) = bytes.split_at(at);
            let ends = rest[0] == b'\n';
            bytes = &rest[1..];
            self.offset += at as u64 + 1;
            if self.tail.is_empty() {
                self.end(newest(line), ends, each);
            } else {
                let mut whole = std::mem::take(&mut self.tail);
                whole.extend_from_slice(line);
                self.end(newest(&whole), ends, each);
                whole.clear();
                self.tail = whole;
            }
        }
        self.offset += bytes.len() as u64;
        self.tail.extend_from_slice(newest(bytes));
        // Cut only once in a while, so that a line without end costs no more than its bytes.
        if self.tail.len() > 2 * BOUND {
            let old = self.tail.len() - BOUND;
            self.tail.drain(..old);
            self.streams.iter_mut().for_each(|stream| stream.rested = 0);
        }
    }

    /// The file rests: hands out what is unfinished, if it has not been handed out as it is.
    pub fn rest(&mut self, each: &mut dyn FnMut(Line<'_>)) {
        let tail = std::mem::take(&mut self.tail);
        let known = self.header.is_some();
        let header = self.header.clone();
        let header = header.unwrap_or_else(|| self.labels.open(&tail, false));
        // Who writes whole records will write the rest of this one: what it says may change with its last byte.
        let record = header.record || self.records || tail.starts_with(DOCKER);
        let torn = record && tail.len() < BOUND;
        if !(tail.is_empty() || torn) {
            let text = &tail[if known { 0 } else { header.length }..];
            let stream = stream(&mut self.streams, &header);
            let whole = stream.joined(header.again.as_deref(), text);
            stream.rested = stream.hand_out(newest(&whole), false, self.offset, each);
        }
        for stream in &mut self.streams {
            if tail.is_empty() && !stream.partial.is_empty() {
                let partial = std::mem::take(&mut stream.partial);
                stream.rested = stream.hand_out(newest(&partial), false, self.offset, each);
                stream.partial = partial;
            }
        }
        self.tail = tail;
    }

    /// There is an unfinished last line.
    pub fn unfinished(&self) -> bool {
        !self.tail.is_empty() || self.streams.iter().any(|stream| !stream.partial.is_empty())
    }

    /// The file begins anew: nothing that was unfinished goes on.
    pub fn begin(&mut self) {
        *self = Self::default();
    }

    /// A piece of a physical line is there; `ends`: it is the last one.
    fn end(&mut self, raw: &[u8], ends: bool, each: &mut dyn FnMut(Line<'_>)) {
        if self.header.is_none()
            && let Some((header, text)) = envelope::docker(raw)
        {
            let text = text.strip_suffix(b"\n").unwrap_or(&text);
            self.records = true;
            self.pieces(&header, text, each);
            return;
        }
        let (header, text) = match self.header.take() {
            Some(header) => (header, raw),
            None => {
                let header = self.labels.open(raw, true);
                let text = &raw[header.length..];
                (header, text)
            }
        };
        match envelope::octal(text) {
            Some(text) => self.pieces(&header, &text, each),
            None => self.piece(&header, text, ends, each),
        }
        self.records = header.record;
        if !ends {
            self.header = Some(header);
        }
    }

    /// A whole line whose ends within came as text.
    fn pieces(&mut self, header: &Header, text: &[u8], each: &mut dyn FnMut(Line<'_>)) {
        let mut rest = text;
        while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
            self.piece(header, &rest[..at], false, each);
            rest = &rest[at + 1..];
        }
        self.piece(header, rest, true, each);
    }

    fn piece(&mut self, header: &Header, text: &[u8], ends: bool, each: &mut dyn FnMut(Line<'_>)) {
        let stream = stream(&mut self.streams, header);
        if header.again.is_none() && stream.partial.is_empty() && !(ends && header.partial) {
            stream.hand_out(text, true, self.offset, each);
            stream.rested = 0;
            return;
        }
        let whole = stream.joined(header.again.as_deref(), text);
        if ends && header.partial {
            stream.partial = newest(&whole).to_vec();
        } else {
            stream.partial.clear();
            stream.hand_out(newest(&whole), true, self.offset, each);
            stream.rested = 0;
        }
    }
}

/// The stream that the header names.
fn stream<'a>(streams: &'a mut Vec<Stream>, header: &Header) -> &'a mut Stream {
    let known = streams.iter().position(|s| s.name == header.stream);
    let index = known.unwrap_or_else(|| {
        if streams.len() >= STREAMS {
            streams.remove(0);
        }
        streams.push(Stream {
            name: header.stream.clone(),
            rank: header.rank,
            ..Stream::default()
        });
        streams.len() - 1
    });
    &mut streams[index]
}

impl Stream {
    /// The unfinished part and what follows it, without what a launcher put into the middle.
    fn joined(&self, again: Option<&[u8]>, text: &[u8]) -> Vec<u8> {
        let mut whole = self.partial.clone();
        let mut rest = text;
        while let Some(again) = again
            && let Some(at) = memchr::memmem::find(rest, again)
        {
            whole.extend_from_slice(&rest[..at]);
            rest = &rest[at + again.len()..];
        }
        whole.extend_from_slice(rest);
        whole
    }

    /// Hands out one line and returns the length of its text.
    fn hand_out(
        &mut self,
        raw: &[u8],
        whole: bool,
        end: u64,
        each: &mut dyn FnMut(Line<'_>),
    ) -> usize {
        let ansi::Plain {
            text: plain,
            nested,
        } = ansi::plain(raw);
        if plain.trim().is_empty() {
            return 0;
        }
        let (rested, rank) = (self.rested, self.rank);
        let mut line = |text: &str, before: usize| {
            let seen = before.max(rested.min(text.len()));
            if seen < text.len() {
                each(Line {
                    text,
                    seen,
                    end,
                    rank,
                    nested,
                });
            }
            text.len()
        };
        if let Some(head) = Record::head(&plain) {
            let length = line(&head.text, 0);
            self.record = Some(head);
            return length;
        }
        if let Some(record) = &mut self.record
            && let Some(piece) = record.continuation(&plain)
        {
            let (before, broken) = (record.text.len(), record.broken);
            record.join(piece);
            let length = line(&record.text, before.min(record.text.len()));
            if !whole {
                record.text.truncate(before);
                record.broken = broken;
            }
            return length;
        }
        line(plain.trim_end(), 0)
    }
}

/// The newest bytes of a line that is too long.
fn newest(line: &[u8]) -> &[u8] {
    &line[line.len().saturating_sub(BOUND)..]
}

#[cfg(test)]
mod tests;
