//! One followed log: its bytes become observations, and those go into its run, under one lock for each turn.

use std::io;
use std::sync::{Arc, Weak};

use super::now;
use crate::job::{Job, Phase, Unix};
use crate::log::follow::{Follower, Gained};
use crate::log::listener::Listener;
use crate::log::reader::Reader;
use crate::state::{Run, Shared, State};

/// A log that is longer is begun at its end, so that its run is known at once; all of it is read behind that.
const LONG: u64 = 16 * 1024 * 1024;
/// The parts of a long log's end, each tried if the one before does not tell phase and epoch.
const ENDINGS: [usize; 3] = [256 * 1024, 2 * 1024 * 1024, LONG as usize];

/// One log that is followed.
pub(super) struct Log {
    run: String,
    /// The newest turn did not reach the end.
    pub(super) more: bool,
    /// When bytes last came, while the last line has not been judged.
    pub(super) unrested: Option<Unix>,
    follower: Follower,
    /// Who has read nothing yet.
    reader: Reader,
    listener: Listener,
    /// All that was in the file when it was first looked at is read: what comes now came now.
    caught_up: bool,
    /// What the run was, as far as a long log is read from its beginning.
    behind: Option<Job>,
    /// Dropped when it is let go; none where it cannot be.
    hold: Option<Weak<()>>,
}

impl Log {
    /// Follows a log for `run`.
    pub(super) fn new(run: String, follower: Follower, reader: Reader) -> Self {
        Self {
            run,
            more: false,
            unrested: None,
            follower,
            listener: Listener::new(reader.clone()),
            reader,
            caught_up: false,
            behind: None,
            hold: None,
        }
    }

    /// It says nothing any more once `hold` is dropped, even if its file system answers only then.
    pub(super) fn held_by(self, hold: &Arc<()>) -> Self {
        Self {
            hold: Some(Arc::downgrade(hold)),
            ..self
        }
    }

    /// It was not let go.
    pub(super) fn is_held(&self) -> bool {
        let hold = self.hold.as_ref();
        hold.is_none_or(|hold| hold.strong_count() > 0)
    }

    /// Its run, which may be gone, or by now be another one of that name.
    fn run<'a>(&self, state: &'a mut State) -> Option<&'a mut Run> {
        state.runs.get_mut(&self.run).filter(|_| self.is_held())
    }

    /// When its file was last written; absent before it was opened.
    pub(super) fn modified(&self) -> Option<Unix> {
        self.follower.modified()
    }

    /// Reads what the log gained, at most one turn of it.
    pub(super) fn read(&mut self, shared: &Shared) {
        let opens = !self.follower.is_open();
        let listener = &mut self.listener;
        let mut came = false;
        let result = self.follower.poll(&mut |gained| match gained {
            Gained::Bytes(bytes) => {
                came = true;
                listener.push(bytes);
            }
            Gained::Rotated | Gained::Truncated => listener.rotated(),
        });
        let at = now();
        let news = came && self.caught_up;
        // What was in the file before we looked came at the latest when it was last written.
        let written = self.follower.modified().filter(|_| !self.caught_up);
        let came_at = written.map_or(at, |written| written.min(at));
        if came {
            self.unrested = self.listener.unfinished().then_some(came_at);
        }
        self.more = matches!(result, Ok(true));
        if opens && self.follower.lag() > LONG {
            self.begin_at_the_end(came_at, shared);
        }
        self.caught_up |= matches!(result, Ok(false));
        self.tell(shared, came_at, news, result.err());
    }

    /// Learns from the end of a long log what its run is doing now.
    fn begin_at_the_end(&mut self, at: Unix, shared: &Shared) {
        let afresh = self.run(&mut shared.lock()).map(|run| run.job.afresh());
        let Some(afresh) = afresh else {
            return;
        };
        let Some((job, listener)) = self.at_the_end(&afresh, at) else {
            return;
        };
        self.behind = Some(afresh);
        let mut state = shared.lock();
        let Some(run) = self.run(&mut state) else {
            return;
        };
        if let Some(framework) = listener.framework() {
            framework.clone_into(&mut run.info.framework);
        }
        run.job = job;
        (run.job.partial, run.log.partial) = (true, true);
    }

    /// What the end of the log says of a run, and who read it; nothing if it cannot be read.
    fn at_the_end(&mut self, afresh: &Job, at: Unix) -> Option<(Job, Listener)> {
        let mut newest = None;
        for most in ENDINGS {
            let Ok(ending) = self.follower.ending(most) else {
                break;
            };
            let mut listener = Listener::new(self.reader.clone());
            // The first line is not whole.
            let first = memchr::memchr2(b'\n', b'\r', &ending).map_or(0, |at| at + 1);
            listener.push(&ending[first..]);
            listener.rest();
            let mut job = afresh.clone();
            let said = listener.take().said;
            said.into_iter().for_each(|said| job.apply(said, at));
            let told = job.phase != Phase::Unknown && job.epoch.is_some();
            newest = Some((job, listener));
            if told {
                break;
            }
        }
        newest
    }

    /// Judges the unfinished last line once it rests.
    pub(super) fn rest(&mut self, patience: f64, shared: &Shared) {
        let Some(since) = self.unrested.filter(|since| now() - since >= patience) else {
            return;
        };
        self.unrested = None;
        self.listener.rest();
        self.tell(shared, since, self.caught_up, None);
    }

    /// Takes what was heard into the state.
    fn tell(&mut self, shared: &Shared, at: Unix, news: bool, error: Option<io::Error>) {
        let mut state = shared.lock();
        let Some(run) = self.run(&mut state) else {
            return;
        };
        if let Some(behind) = &mut self.behind {
            behind.configure(run.job.limits().clone(), run.job.files_planned);
            std::mem::swap(&mut run.job, behind);
        }
        run.heard(self.listener.take(), self.listener.framework(), at, news);
        if self.caught_up {
            (self.behind, run.log.partial) = (None, false);
        } else if let Some(behind) = &mut self.behind {
            std::mem::swap(&mut run.job, behind);
        }
        run.log.lag = self.follower.lag();
        run.log.last_write = self.follower.modified();
        run.log.up = error.is_none() && self.follower.is_open();
        if error.is_some() {
            run.blinded();
        }
        let error = error.map(|e| format!("{}: {e}", self.follower.path().display()));
        if let Some(why) = error.as_ref().filter(|_| error != run.log.error) {
            tracing::warn!(run = ?self.run, why, "its log cannot be read");
        }
        run.log.error = error;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::job::cadence::Limits;
    use crate::log::reader::Presets;
    use crate::state::Run;

    /// A log of 20 MiB after one look at it, and after all of it was read.
    fn long(parts: [&str; 3]) -> [Run; 2] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("train.log");
        let [first, noise, last] = parts;
        let text = [first, &noise.repeat((20 << 20) / noise.len()), last].concat();
        fs::write(&path, &text).expect("written");
        let shared = Shared::default();
        let run = Run::new("r", Limits::default());
        shared.lock().runs.insert("r".to_owned(), run);
        let reader = Presets::built_in().reader(None);
        let mut log = Log::new("r".to_owned(), Follower::new(&path), reader);
        log.read(&shared);
        let known = shared.lock().runs["r"].clone();
        assert!(known.job.partial && known.log.partial && log.more);
        while log.more {
            log.read(&shared);
        }
        log.unrested = log.unrested.map(|_| 0.0);
        log.rest(0.0, &shared);
        let read = shared.lock().runs["r"].clone();
        assert!(!read.job.partial && !read.log.partial);
        assert_eq!(read.log.bytes, text.len() as u64);
        [known, read]
    }

    #[test]
    fn a_long_log_is_known_from_its_end_and_counted_when_all_of_it_is_read() {
        let noise = format!("{}\n", "nothing of interest ".repeat(2000));
        let first = "Traceback (most recent call last):\nEpoch 1/9\n";
        let [known, read] = long([first, &noise, "Training epoch 7/9 started\n"]);
        for run in [known, read.clone()] {
            assert_eq!((run.job.phase, run.job.epoch), (Phase::Train, Some(7)));
        }
        assert!(read.log.lines > 500);
    }

    /// Its end may say nothing, or be one line: that is not known before all of it is read, and a frame at its very
    /// end is known at once.
    #[test]
    fn a_long_log_whose_end_says_nothing_is_unknown_until_all_of_it_is_read() {
        let first = "Training epoch 7/9 started\n";
        let lines = format!("{}\n", "nothing of interest ".repeat(2000));
        for noise in ["one line without any end ", &lines, "\0"] {
            let [known, read] = long([first, noise, ""]);
            assert_eq!((known.job.phase, known.job.epoch), (Phase::Unknown, None));
            assert_eq!((read.job.phase, read.job.epoch), (Phase::Train, Some(7)));
        }
        let frame = "\rTraining epoch 8/9 started";
        let [known, read] = long([first, "one line without any end ", frame]);
        for run in [known, read] {
            assert_eq!((run.job.phase, run.job.epoch), (Phase::Train, Some(8)));
        }
    }
}
