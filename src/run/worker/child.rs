//! One worker process as the exporter sees it: started with a pipe to and one from it, and its newest frame. Frames are
//! taken as they come, by a thread that ends with the pipe, so a worker is never slowed by us, nor we by it.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Frame, clock};

/// No frame is longer: 64 GPUs with 1,000 processes each fit.
const LONGEST_FRAME: u64 = 4 << 20;

/// A worker process that is listened to.
pub(super) struct Worker {
    pub(super) started: Instant,
    process: Child,
    /// The worker ends when this is closed.
    leash: Option<ChildStdin>,
    newest: Arc<Newest>,
}

/// What a worker said last.
#[derive(Clone, Default)]
pub(super) struct Heard {
    pub(super) frame: Option<Frame>,
    /// When that came.
    pub(super) at: Option<Instant>,
    /// Nothing will come any more.
    pub(super) ended: bool,
}

#[derive(Default)]
struct Newest {
    heard: Mutex<Heard>,
    changed: Condvar,
}

impl Worker {
    /// Starts `program nvml-worker`.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one process that the exporter starts"
    )]
    pub(super) fn start(program: &Path, library: Option<&Path>) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg("nvml-worker");
        if let Some(library) = library {
            command.arg("--library").arg(library);
        }
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Whoever waits for the end of our own stderr must not wait for a worker that hangs.
            .stderr(Stdio::null())
            // Signals from the terminal are ours: the worker ends with its stdin.
            .process_group(0)
            .spawn()?;
        let (leash, pipe) = (process.stdin.take(), process.stdout.take());
        let newest = Arc::new(Newest::default());
        if let Some(pipe) = pipe {
            let newest = newest.clone();
            thread::Builder::new()
                .name("nvml frames".to_owned())
                .spawn(move || newest.follow(pipe))?;
        }
        Ok(Self {
            started: clock(),
            process,
            leash,
            newest,
        })
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// What it said last.
    pub(super) fn heard(&self) -> Heard {
        self.newest.lock().clone()
    }

    /// Waits for the first frame, at most so long.
    pub(super) fn first(&self, patience: Duration) {
        let waits = |heard: &mut Heard| heard.frame.is_none() && !heard.ended;
        let changed = &self.newest.changed;
        // In time or not, what is there is looked at next.
        let _ = changed.wait_timeout_while(self.newest.lock(), patience, waits);
    }

    /// Lets it go, and says how it ended; one that has not ended yet is killed, once, if so wanted. It is never waited
    /// for: a process that sleeps in the driver hears nothing.
    pub(super) fn let_go(mut self, kill: bool) -> Result<ExitStatus, Child> {
        drop(self.leash.take());
        if let Ok(Some(status)) = self.process.try_wait() {
            return Ok(status);
        }
        if kill {
            let _ = self.process.kill();
        }
        Err(self.process)
    }
}

impl Newest {
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes frames until the pipe ends, or brings what is none.
    fn follow(&self, pipe: ChildStdout) {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while let Ok(1..) = pipe
            .by_ref()
            .take(LONGEST_FRAME)
            .read_until(b'\n', &mut line)
        {
            let Ok(frame) = serde_json::from_slice(&line) else {
                break;
            };
            let mut heard = self.lock();
            (heard.frame, heard.at) = (Some(frame), Some(clock()));
            drop(heard);
            self.changed.notify_all();
            line.clear();
        }
        self.lock().ended = true;
        self.changed.notify_all();
    }
}
