//! One log, from bytes to what they say: `Lines::push`, then `Reader::read`. What was said is kept until it is taken, so
//! that no lock is held while a log is read.

use super::lines::{Line, Lines};
use super::reader::Reader;
use crate::job::observation::Observation;

/// Listens to one log.
#[derive(Debug)]
pub struct Listener {
    lines: Lines,
    reader: Reader,
    heard: Heard,
}

/// What a log gained, and what that says.
#[derive(Debug, Default)]
pub struct Heard {
    /// What it says, in order.
    pub said: Vec<Observation>,
    /// Bytes.
    pub bytes: u64,
    /// Lines, each frame of a bar as one.
    pub lines: u64,
    /// Lines that said something.
    pub matched: u64,
    /// Rotations and truncations.
    pub rotations: u64,
}

impl Listener {
    /// Listens to a log that this reader understands.
    pub fn new(reader: Reader) -> Self {
        Self {
            lines: Lines::default(),
            reader,
            heard: Heard::default(),
        }
    }

    /// The log gained these bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let (reader, heard) = (&mut self.reader, &mut self.heard);
        heard.bytes += bytes.len() as u64;
        self.lines
            .push(bytes, &mut |line| heard.line(reader, &line));
    }

    /// The log rests: its unfinished last line is judged as it is.
    pub fn rest(&mut self) {
        let (reader, heard) = (&mut self.reader, &mut self.heard);
        self.lines.rest(&mut |line| heard.line(reader, &line));
    }

    /// The file begins anew: what stands unfinished will not be finished.
    pub fn rotated(&mut self) {
        self.rest();
        self.lines.begin();
        self.heard.rotations += 1;
    }

    /// There is an unfinished last line.
    pub fn unfinished(&self) -> bool {
        self.lines.unfinished()
    }

    /// The framework, once it is known.
    pub fn framework(&self) -> Option<&str> {
        self.reader.framework()
    }

    /// What was heard since this was last asked.
    pub fn take(&mut self) -> Heard {
        std::mem::take(&mut self.heard)
    }
}

impl Heard {
    fn line(&mut self, reader: &mut Reader, line: &Line<'_>) {
        let before = self.said.len();
        reader.read(line, &mut |observation| self.said.push(observation));
        self.lines += 1;
        self.matched += u64::from(self.said.len() > before);
    }
}
