//! Both ends of the NVML worker: the process that asks the driver each second, and the one that listens to it.
//!
//! A call into a broken driver may never return, and then nothing ends the thread that made it, not even SIGKILL: it
//! would hold the exporter's port. So the driver is asked in a child process that shares one pipe with us and no file.
//! A child that falls silent is left behind, another one is started, and when three hang no more are.

mod child;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::now;
use crate::job::Unix;
use crate::node::gpu::{Gpu, Gpus, NONE};
use crate::node::nvml::Nvml;
use crate::node::nvml::ledger::Ledger;
use child::Worker;

/// From one look of the worker to the next.
const LOOK: Duration = Duration::from_secs(1);
/// One reading, a line of JSON on the pipe.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Frame {
    Gpus { at: Unix, gpus: Vec<Gpu> },
    Error(String),
}

/// The worker process: a frame each second, until nobody listens any more.
pub fn nvml_worker(library: Option<&Path>) -> anyhow::Result<()> {
    // Our stdin ends with the exporter, however that ends.
    thread::Builder::new().name("leash".to_owned()).spawn(|| {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        std::process::exit(0);
    })?;
    let mut nvml = Nvml::new(library);
    let mut out = io::stdout().lock();
    loop {
        let began = now();
        let frame = match nvml.look(began) {
            Ok(gpus) => Frame::Gpus { at: began, gpus },
            Err(why) => Frame::Error(why),
        };
        let mut line = serde_json::to_vec(&frame)?;
        line.push(b'\n');
        out.write_all(&line)?;
        out.flush()?;
        anyhow::ensure!(!nvml.spent(), "the library must be opened by a new process");
        let took = Duration::try_from_secs_f64(now() - began).unwrap_or_default();
        thread::sleep(LOOK.saturating_sub(took));
    }
}

/// How long the exporter waits for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// A new worker is given so long for its first frame before the reading goes on without.
    pub first: Duration,
    /// An older frame is no reading.
    pub fresh: Duration,
    /// A worker that is silent for longer is left behind.
    pub silent: Duration,
    /// From the end of one worker to the start of the next: first, doubled each time up to the longest.
    pub pause: Duration,
    /// The longest pause. A worker that has answered for as long makes the next pause the first again.
    pub longest_pause: Duration,
    /// So many may hang at a time; then no more are started.
    pub abandoned: usize,
    /// A worker left behind is killed, once. Not in a test of those that cannot be.
    pub kill: bool,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            fresh: Duration::from_secs(3),
            silent: Duration::from_secs(10),
            pause: Duration::from_secs(5),
            longest_pause: Duration::from_secs(300),
            abandoned: 3,
            kill: true,
        }
    }
}

/// The GPUs of this node, by a worker process.
pub struct NvmlWorker {
    program: PathBuf,
    library: Option<PathBuf>,
    patience: Patience,
    worker: Option<Worker>,
    /// Told to end and not ended yet: they hang in the driver.
    abandoned: Vec<Child>,
    next_start: Option<Instant>,
    pause: Duration,
    /// Since when the driver is silent: its newest frame, or the start of the worker.
    heard: Option<Instant>,
    /// When the worker asked for what was read last.
    read_at: Option<Unix>,
    ledger: Ledger,
    /// Why there is no reading.
    why: Why,
    told: Why,
}

/// Why there is no reading.
#[derive(Clone, Debug, PartialEq)]
enum Why {
    Nothing,
    /// The driver does not answer.
    Silent,
    /// The worker cannot be had, or says so itself.
    Said(String),
}

impl NvmlWorker {
    /// Workers of this very program, as it is now on disk. Without a library the loader looks for it.
    pub fn new(library: Option<&Path>) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        Ok(Self::of(program, library, Patience::default()))
    }

    /// Workers of another program that knows `nvml-worker`.
    pub fn of(program: PathBuf, library: Option<&Path>, patience: Patience) -> Self {
        Self {
            program,
            library: library.map(Path::to_owned),
            patience,
            worker: None,
            abandoned: Vec::new(),
            next_start: None,
            pause: patience.pause,
            heard: None,
            read_at: None,
            ledger: Ledger::default(),
            why: Why::Nothing,
            told: Why::Nothing,
        }
    }

    /// How many workers hang.
    pub fn abandoned(&self) -> usize {
        self.abandoned.len()
    }

    /// The process id of the worker that is listened to.
    pub fn pid(&self) -> Option<u32> {
        self.worker.as_ref().map(Worker::pid)
    }

    fn start(&mut self, now: Instant) {
        let early = self.next_start.is_some_and(|next| now < next);
        if early || self.abandoned.len() >= self.patience.abandoned {
            return;
        }
        match Worker::start(&self.program, self.library.as_deref()) {
            Ok(worker) => {
                self.heard.get_or_insert(now);
                self.ledger.restarted();
                worker.first(self.patience.first);
                self.worker = Some(worker);
            }
            Err(e) => {
                self.why = Why::Said(format!("no NVML worker can be started: {e}"));
                self.later(now);
            }
        }
    }

    fn later(&mut self, now: Instant) {
        self.next_start = Some(now + self.pause);
        self.pause = (2 * self.pause).min(self.patience.longest_pause);
    }

    /// Lets the worker go; another one is started after a pause.
    fn give_up(&mut self, now: Instant) {
        let Some(worker) = self.worker.take() else {
            return;
        };
        let heard = worker.heard();
        let answered = heard.at.map(|at| at.duration_since(worker.started));
        if answered.is_some_and(|answered| answered >= self.patience.longest_pause) {
            self.pause = self.patience.pause;
        }
        self.later(now);
        let mut how = String::new();
        match worker.let_go(self.patience.kill) {
            Ok(status) => how = format!(": {status}"),
            Err(process) => self.abandoned.push(process),
        }
        if heard.ended {
            self.why = Why::Said(format!("the NVML worker ended{how}"));
            self.heard = None;
        } else {
            self.why = Why::Silent;
        }
    }

    fn reading(&mut self, now: Instant) -> Result<Vec<Gpu>, Why> {
        let Some(worker) = &self.worker else {
            return Err(self.why.clone());
        };
        let heard = worker.heard();
        self.heard = heard.at.or(self.heard);
        let silent = now.saturating_duration_since(heard.at.unwrap_or(worker.started));
        if heard.ended || silent > self.patience.silent {
            self.give_up(now);
            return Err(self.why.clone());
        }
        match heard.frame.filter(|_| silent <= self.patience.fresh) {
            Some(Frame::Gpus { at, gpus }) => {
                self.read_at = Some(at);
                Ok(self.ledger.take(gpus))
            }
            Some(Frame::Error(why)) => Err(Why::Said(why)),
            None => Err(Why::Silent),
        }
    }

    /// Tells a change, not each reading.
    fn tell(&mut self, why: Why) {
        // A start may take a while.
        let early = why == Why::Silent && self.silence() <= self.patience.fresh;
        if self.told == why || early {
            return;
        }
        match &why {
            Why::Nothing => tracing::info!("the GPUs can be read"),
            Why::Silent => {
                tracing::error!(abandoned = self.abandoned(), "the driver does not answer")
            }
            Why::Said(why) if why.starts_with(NONE) => tracing::info!("{why}"),
            Why::Said(why) => tracing::warn!(why, "no GPU can be read"),
        }
        self.told = why;
    }

    /// Since when the driver is silent.
    fn silence(&self) -> Duration {
        self.heard.map(|heard| clock() - heard).unwrap_or_default()
    }
}

impl Gpus for NvmlWorker {
    fn read(&mut self) -> anyhow::Result<Vec<Gpu>> {
        let now = clock();
        self.abandoned
            .retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        if self.worker.is_none() {
            self.start(now);
        }
        // A first frame may have been waited for.
        let reading = self.reading(clock());
        self.tell(reading.as_ref().err().cloned().unwrap_or(Why::Nothing));
        match reading {
            Ok(gpus) => Ok(gpus),
            Err(Why::Said(why)) => anyhow::bail!(why),
            Err(Why::Nothing | Why::Silent) => {
                let seconds = self.silence().as_secs();
                let hang = match self.abandoned() {
                    0 => String::new(),
                    some => format!("; {some} of our workers hang in it"),
                };
                anyhow::bail!("the driver has not answered for {seconds} s{hang}")
            }
        }
    }

    fn read_at(&self) -> Option<Unix> {
        self.read_at
    }

    fn blocked_seconds(&self) -> Option<f64> {
        self.heard?;
        let silence = self.silence();
        Some(if silence > self.patience.fresh {
            silence.as_secs_f64()
        } else {
            0.0
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread's clock")]
fn clock() -> Instant {
    Instant::now()
}
