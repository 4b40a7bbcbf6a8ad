//! Any chunks of bytes -> whole lines, and what belongs together as one.
//!
//! A line ends in `\n` or `\r`, so that a bar which is redrawn for hours is read frame by frame. What others put around
//! it (`envelope`) is taken off, and lines of several streams that stand between each other are kept apart. What a
//! daemon wrote down of a stream (a container's runtime, rsyslog) is that stream again, in whatever pieces it came, and
//! is read as any log is: launchers' marks within it are known where its own lines begin. A record
//! that Rich wrapped over several physical lines grows with each of them: it is handed out again, longer, and
//! `Line::seen` tells how much of it was there before, so that a reader never counts a match twice and never waits for
//! a last line that cannot be known as such. An unfinished last line is handed out once it rests, by the same rule; one
//! that a daemon writes waits for its end, which comes.
//!
//! Pure: no clock (the caller says when the file rests) and bounded: a line keeps its newest `BOUND` bytes.

mod record;

use std::borrow::Cow;

use super::ansi;
use super::envelope::{self, DOCKER, Header, Labels};
use record::Record;

/// The longest line that is kept, in bytes. Rich tables and dictionaries are far below, bars without any end above.
pub const BOUND: usize = 64 * 1024;

/// At most so many streams are kept apart; ranks of one node with two streams each are far below.
const STREAMS: usize = 256;

/// And so many that daemons write down, those that were heard last: each is a log of its own.
const RECORDED: usize = 16;

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
    /// What daemons wrote down, by stream; the newest last.
    recorded: Vec<(Vec<u8>, Lines)>,
    /// This is such a stream: a daemon's record within is one more mark before a line.
    within: bool,
}

/// What is unfinished in one stream.
#[derive(Debug, Default)]
struct Stream {
    name: Vec<u8>,
    rank: Option<u64>,
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
        let header = header.unwrap_or_else(|| self.labels.open(&tail, false, self.within));
        // Who writes whole records will write the rest of this one: what it says may change with its last byte.
        let record = header.record || self.records || tail.starts_with(DOCKER);
        let torn = record && tail.len() < BOUND;
        if !(tail.is_empty() || torn) {
            let text = &tail[if known { 0 } else { header.length }..];
            let text = without(header.again.as_deref(), text);
            let stream = stream(&mut self.streams, &header);
            stream.rested = stream.hand_out(newest(&text), false, self.offset, each);
        }
        if tail.is_empty() {
            let end = self.offset;
            for (_, lines) in &mut self.recorded {
                lines.rest(&mut |line| each(Line { end, ..line }));
            }
        }
        self.tail = tail;
    }

    /// There is an unfinished last line.
    pub fn unfinished(&self) -> bool {
        !self.tail.is_empty() || self.recorded.iter().any(|(_, lines)| lines.unfinished())
    }

    /// The file begins anew: nothing that was unfinished goes on.
    pub fn begin(&mut self) {
        *self = Self::default();
    }

    /// A piece of a physical line is there; `ends`: it is the last one.
    fn end(&mut self, raw: &[u8], ends: bool, each: &mut dyn FnMut(Line<'_>)) {
        if self.header.is_none()
            && !self.within
            && let Some((header, text)) = envelope::docker(raw)
        {
            self.records = true;
            self.record(&header, &[&text], each);
            return;
        }
        let (header, text) = match self.header.take() {
            Some(header) => (header, raw),
            None => {
                let header = self.labels.open(raw, true, self.within);
                let text = &raw[header.length..];
                (header, text)
            }
        };
        let text = envelope::octal(text).map_or(Cow::Borrowed(text), Cow::Owned);
        if header.record && !self.within {
            let end: &[u8] = match (ends, header.partial) {
                (false, _) => b"\r",
                (true, true) => b"",
                (true, false) => b"\n",
            };
            self.record(&header, &[&text, end], each);
        } else {
            let stream = stream(&mut self.streams, &header);
            for piece in text.split(|&byte| byte == b'\n' || byte == b'\r') {
                let piece = without(header.again.as_deref(), piece);
                stream.hand_out(newest(&piece), true, self.offset, each);
                stream.rested = 0;
            }
        }
        self.records = header.record;
        if !ends {
            self.header = Some(header);
        }
    }

    /// A daemon wrote down the next bytes of a stream.
    fn record(&mut self, header: &Header, bytes: &[&[u8]], each: &mut dyn FnMut(Line<'_>)) {
        let mut known = self.recorded.iter();
        let (name, mut lines) = match known.position(|(name, _)| *name == header.stream) {
            Some(index) => self.recorded.remove(index),
            None => (
                header.stream.clone(),
                Self {
                    within: true,
                    ..Self::default()
                },
            ),
        };
        let end = self.offset;
        for bytes in bytes {
            lines.push(bytes, &mut |line| {
                let rank = line.rank.or(header.rank);
                each(Line { end, rank, ..line });
            });
        }
        if self.recorded.len() >= RECORDED {
            self.recorded.remove(0);
        }
        self.recorded.push((name, lines));
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

/// The text without the mark that a launcher put into its middle, too.
fn without<'a>(again: Option<&[u8]>, text: &'a [u8]) -> Cow<'a, [u8]> {
    let Some(again) = again.filter(|again| memchr::memmem::find(text, again).is_some()) else {
        return Cow::Borrowed(text);
    };
    let mut whole = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memmem::find(rest, again) {
        whole.extend_from_slice(&rest[..at]);
        rest = &rest[at + again.len()..];
    }
    whole.extend_from_slice(rest);
    Cow::Owned(whole)
}

/// The newest bytes of a line that is too long.
fn newest(line: &[u8]) -> &[u8] {
    &line[line.len().saturating_sub(BOUND)..]
}

#[cfg(test)]
mod tests;
