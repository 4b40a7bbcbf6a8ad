//! One followed log: its bytes become observations, and those go into its run, under one lock for each turn.

use std::io;
use std::path::Path;

use super::now;
use crate::job::observation::Observation;
use crate::job::{Job, Phase, Unix};
use crate::log::follow::{Follower, Gained};
use crate::log::lines::{Line, Lines};
use crate::log::reader::Reader;
use crate::state::Shared;

/// A log that is longer is begun at its end, so that its run is known at once; all of it is read behind that.
const LONG: u64 = 16 * 1024 * 1024;
/// The parts of a long log's end, each tried if the one before does not tell phase and epoch.
const ENDINGS: [usize; 3] = [256 * 1024, 2 * 1024 * 1024, LONG as usize];

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
    /// Where the words go while a long log is read from its beginning.
    behind: Option<Box<Job>>,
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
            behind: None,
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
        let afresh = (!self.follower.is_open()).then(|| self.reader.clone());
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
        if let Some(reader) = afresh.filter(|_| self.follower.lag() > LONG) {
            self.begin_at_the_end(&reader, came_at, shared);
        }
        self.caught_up |= matches!(result, Ok(false));
        self.tell(shared, said, came_at, result.err());
        if news && let Some(run) = shared.lock().runs.get_mut(&self.run) {
            run.alive = true;
        }
    }

    /// Learns from the end of a long log what its run is doing now.
    fn begin_at_the_end(&mut self, reader: &Reader, at: Unix, shared: &Shared) {
        let mut state = shared.lock();
        let Some(run) = state.runs.get_mut(&self.run) else {
            return;
        };
        self.behind = Some(Box::new(run.job.afresh()));
        for most in ENDINGS {
            let Ok(ending) = self.follower.ending(most) else {
                return;
            };
            let (mut lines, mut reader, mut job) =
                (Lines::default(), reader.clone(), run.job.afresh());
            // The first line is not whole.
            let first = memchr::memchr2(b'\n', b'\r', &ending).map_or(0, |at| at + 1);
            let mut each = |line: Line<'_>| reader.read(&line, &mut |said| job.apply(said, at));
            lines.push(&ending[first..], &mut each);
            lines.rest(&mut each);
            if let Some(framework) = reader.framework() {
                framework.clone_into(&mut run.info.framework);
            }
            let told = job.phase != Phase::Unknown && job.epoch.is_some();
            run.job = job;
            (run.job.partial, run.log.partial) = (true, true);
            if told {
                return;
            }
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
        if self.caught_up {
            said.iter().for_each(|said| run.log.blocks.told(said));
        }
        let job = self.behind.as_deref_mut().unwrap_or(&mut run.job);
        said.into_iter().for_each(|said| job.apply(said, at));
        if self.caught_up
            && let Some(whole) = self.behind.take()
        {
            (run.job, run.log.partial) = (*whole, false);
        }
        if let Some(framework) = self.reader.framework() {
            framework.clone_into(&mut run.info.framework);
        }
        let counts = std::mem::take(&mut self.counts);
        if self.caught_up {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::job::cadence::Limits;
    use crate::log::reader::Presets;
    use crate::state::Run;

    #[test]
    fn a_long_log_is_known_from_its_end_and_counted_when_all_of_it_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("train.log");
        let mut text = "Traceback (most recent call last):\nEpoch 1/9\n".to_owned();
        let noise = format!("{}\n", "nothing of interest ".repeat(2000));
        while text.len() < 20 << 20 {
            text.push_str(&noise);
        }
        text.push_str("Training epoch 7/9 started\n");
        fs::write(&path, text).expect("written");
        let shared = Shared::default();
        let run = Run::new("r", Limits::default());
        shared.lock().runs.insert("r".to_owned(), run);
        let reader = Presets::built_in().reader(None);
        let mut log = Log::new(0, "r".to_owned(), &path, reader);
        log.read(&shared);
        {
            let state = shared.lock();
            let run = &state.runs["r"];
            assert_eq!((run.job.phase, run.job.epoch), (Phase::Train, Some(7)));
            assert!(run.job.partial && run.log.partial && log.more);
        }
        while log.more {
            log.read(&shared);
        }
        let state = shared.lock();
        let run = &state.runs["r"];
        assert_eq!((run.job.phase, run.job.epoch), (Phase::Train, Some(7)));
        assert!(!run.job.partial && !run.log.partial);
        assert_eq!(run.log.bytes, fs::metadata(&path).expect("there").len());
        assert!(run.log.lines > 500);
    }
}
