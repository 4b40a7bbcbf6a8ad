//! One followed log: its bytes become observations, and those go into its run, under one lock for each turn.

use std::io;
use std::path::Path;

use super::now;
use crate::job::Unix;
use crate::job::observation::Observation;
use crate::log::follow::{Follower, Gained};
use crate::log::lines::{Line, Lines};
use crate::log::reader::Reader;
use crate::state::Shared;

/// One log that is followed.
pub(super) struct Log {
    /// Which of the configured sources it is of.
    pub(super) source: usize,
    /// Its run.
    pub(super) run: String,
    /// The newest turn did not reach the end.
    pub(super) more: bool,
    /// When bytes last came, while the last line has not been judged.
    pub(super) unrested: Option<Unix>,
    follower: Follower,
    lines: Lines,
    reader: Reader,
    /// All that was in the file when it was first looked at is read: what comes now came now.
    caught_up: bool,
    counts: Counts,
}

/// What a turn adds to the counters of a log.
#[derive(Default)]
struct Counts {
    bytes: u64,
    lines: u64,
    matched: u64,
    rotations: u64,
}

impl Log {
    /// Follows the log at `path` for `run`.
    pub(super) fn new(source: usize, run: String, path: &Path, reader: Reader) -> Self {
        Self {
            source,
            run,
            more: false,
            unrested: None,
            follower: Follower::new(path),
            lines: Lines::default(),
            reader,
            caught_up: false,
            counts: Counts::default(),
        }
    }

    /// When its file was last written; absent before it was opened.
    pub(super) fn modified(&self) -> Option<Unix> {
        self.follower.modified()
    }

    /// Reads what the log gained, at most one turn of it.
    pub(super) fn read(&mut self, shared: &Shared) {
        let mut said = Vec::new();
        let (lines, reader, counts) = (&mut self.lines, &mut self.reader, &mut self.counts);
        let mut came = false;
        let result = self.follower.poll(&mut |gained| match gained {
            Gained::Bytes(bytes) => {
                came = true;
                counts.bytes += bytes.len() as u64;
                lines.push(bytes, &mut |line| {
                    read_line(reader, &line, counts, &mut said)
                });
            }
            Gained::Rotated | Gained::Truncated => {
                counts.rotations += 1;
                // What stands unfinished will not be finished.
                lines.rest(&mut |line| read_line(reader, &line, counts, &mut said));
                lines.begin();
            }
        });
        let at = now();
        let news = came && self.caught_up;
        // What was in the file before we looked came at the latest when it was last written.
        let written = self.follower.modified().filter(|_| !self.caught_up);
        let came_at = written.map_or(at, |written| written.min(at));
        if came {
            self.unrested = self.lines.unfinished().then_some(came_at);
        }
        self.more = matches!(result, Ok(true));
        self.caught_up |= matches!(result, Ok(false));
        self.tell(shared, said, came_at, result.err());
        if news && let Some(run) = shared.lock().runs.get_mut(&self.run) {
            run.alive = true;
        }
    }

    /// Judges the unfinished last line once it rests.
    pub(super) fn rest(&mut self, patience: f64, shared: &Shared) {
        let Some(since) = self.unrested.filter(|since| now() - since >= patience) else {
            return;
        };
        self.unrested = None;
        let mut said = Vec::new();
        let (reader, counts) = (&mut self.reader, &mut self.counts);
        self.lines
            .rest(&mut |line| read_line(reader, &line, counts, &mut said));
        self.tell(shared, said, since, None);
    }

    /// Takes what was said into the state.
    fn tell(
        &mut self,
        shared: &Shared,
        said: Vec<Observation>,
        at: Unix,
        error: Option<io::Error>,
    ) {
        let mut state = shared.lock();
        let Some(run) = state.runs.get_mut(&self.run) else {
            return;
        };
        said.into_iter().for_each(|said| run.job.apply(said, at));
        if let Some(framework) = self.reader.framework() {
            framework.clone_into(&mut run.info.framework);
        }
        let counts = std::mem::take(&mut self.counts);
        if self.caught_up && counts.bytes > 0 {
            run.log.blocks.grew(counts.bytes, at);
        }
        run.log.bytes += counts.bytes;
        run.log.lines += counts.lines;
        run.log.matched += counts.matched;
        run.log.rotations += counts.rotations;
        run.log.lag = self.follower.lag();
        run.log.last_write = self.follower.modified();
        run.log.up = error.is_none() && self.follower.is_open();
        if error.is_some() {
            run.job.blinded();
        }
        run.log.error = error.map(|e| format!("{}: {e}", self.follower.path().display()));
    }
}

fn read_line(
    reader: &mut Reader,
    line: &Line<'_>,
    counts: &mut Counts,
    said: &mut Vec<Observation>,
) {
    let before = said.len();
    reader.read(line, &mut |observation| said.push(observation));
    counts.lines += 1;
    counts.matched += u64::from(said.len() > before);
}
