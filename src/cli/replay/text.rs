//! The timeline for people: a row for each line of the log that changed what is believed, or told of an end or a fault.
//!
//! Steps and batches that only go up are two rows, the first and the last of them, unless all are asked for.

use std::io::{self, Write};

use super::{Belief, cut};
use crate::job::Unix;
use crate::job::observation::Observation;

/// What one line of the log did.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// When it came; absent where nobody knows.
    pub(super) at: Option<Unix>,
    /// Its number in the file.
    pub(super) number: u64,
    pub(super) belief: Belief,
    /// What it said, in a preset's words.
    pub(super) said: Vec<String>,
    /// The line itself, if it tells of a fault.
    pub(super) quoted: Option<String>,
    /// It is told though nothing else is believed.
    pub(super) told: bool,
}

/// Prints rows, and holds the newest back while others may stand for it.
#[derive(Debug, Default)]
pub(super) struct Text {
    all: bool,
    /// The newest row that was printed.
    printed: Option<Row>,
    /// The newest row like that one, and how many there are.
    held: Option<(Row, u64)>,
}

/// It is told, whatever it changes: an end, or a fault.
pub(super) fn is_told(said: &Observation) -> bool {
    use Observation as O;
    is_fault(said)
        || matches!(
            said,
            O::Start | O::ValidationEnd | O::Result { .. } | O::CheckpointEnd | O::EpochEnd
        )
}

/// The line that says this is worth reading.
pub(super) fn is_fault(said: &Observation) -> bool {
    use Observation as O;
    matches!(
        said,
        O::Fault(_)
            | O::Raised(_)
            | O::Stopping(_)
            | O::End(_)
            | O::CollectiveTimeout { .. }
            | O::RecompileLimit(_)
    )
}

impl Text {
    /// With a row for each change, or for the first and the last of those that are alike.
    pub(super) fn new(all: bool) -> Self {
        Self {
            all,
            ..Self::default()
        }
    }

    /// Takes in the next row.
    pub(super) fn row(&mut self, row: Row, out: &mut dyn Write) -> io::Result<()> {
        if !self.all
            && self
                .printed
                .as_ref()
                .is_some_and(|old| old.stands_for(&row))
        {
            let times = self.held.take().map_or(0, |(_, times)| times);
            self.held = Some((row, times + 1));
            return Ok(());
        }
        self.rest(out)?;
        row.print(1, out)?;
        self.printed = Some(row);
        Ok(())
    }

    /// Prints what is held back.
    pub(super) fn rest(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match self.held.take() {
            Some((row, times)) => row.print(times, out),
            None => Ok(()),
        }
    }
}

impl Row {
    /// The next one is more of the same: only counts differ, or it tells the same again.
    fn stands_for(&self, next: &Self) -> bool {
        let same = self.belief.without_counts() == next.belief.without_counts();
        same && self.told == next.told && (!self.told || self.said == next.said)
    }

    fn print(&self, times: u64, out: &mut dyn Write) -> io::Result<()> {
        let Belief {
            phase,
            epoch,
            epochs,
            step,
            steps,
            val_done,
            val_total,
            recompile_count,
        } = self.belief;
        let part = |word: &str, done: Option<u64>, of: Option<u64>| match (done, of) {
            (Some(done), Some(of)) => format!("{word} {done}/{of}"),
            (Some(done), None) => format!("{word} {done}"),
            (None, _) => String::new(),
        };
        if let Some(at) = self.at {
            write!(out, "{at:>10.2} s")?;
        }
        write!(
            out,
            "  line {:<7} {phase:<10}  {:<12}{:<18}{:<22}{:<16}<- {}",
            self.number,
            part("epoch", epoch, epochs),
            part("step", step, steps),
            part("validation", val_done, val_total),
            part("recompiles", Some(recompile_count).filter(|&n| n > 0), None),
            self.said.join(", "),
        )?;
        if times > 1 {
            write!(out, "  ({times} like this)")?;
        }
        if let Some(line) = &self.quoted {
            write!(out, ": {}", cut(line))?;
        }
        writeln!(out)
    }
}
