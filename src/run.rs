//! The source threads: each waits, looks, and writes what it saw into the state. The only place that reads the clock
//! for them, and (in `run/watch.rs`) the only user of `notify`.
//!
//! A thread that panics loses one reading and begins again; a source that hangs stalls nobody but itself, and the end
//! of the program waits for it only so long.

mod files;
mod followed;
mod lanes;
mod looks;
mod mounts;
mod watch;
pub mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::Config;
use crate::job::Unix;
use crate::node::gpu::Gpus;
use crate::node::process::Processes;
use crate::state::Shared;

/// How often each source is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Logs: the look that needs no event, and the search for new ones.
    pub files: Duration,
    /// An unfinished last line is judged after resting so long.
    pub rest: Duration,
    /// GPUs.
    pub gpus: Duration,
    /// How much faster than real time the world runs: 1 but in a demo.
    pub speed: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            files: Duration::from_secs(1),
            rest: Duration::from_millis(150),
            gpus: Duration::from_secs(1),
            speed: 1.0,
        }
    }
}

impl Pace {
    /// The pace in a world that runs `speed` times faster.
    pub fn faster(speed: f64) -> Self {
        let usual = Self::default();
        let faster = |pause: Duration| pause.div_f64(speed).max(Duration::from_millis(20));
        Self {
            files: faster(usual.files),
            rest: faster(usual.rest),
            gpus: faster(usual.gpus),
            speed,
        }
    }
}

/// Where this node is read from, beside its files.
#[derive(Default)]
pub struct Sources {
    /// The GPUs; none where this node is not to be asked for them.
    pub gpus: Option<Box<dyn Gpus>>,
    /// The processes; none where they cannot be seen.
    pub processes: Option<Box<dyn Processes>>,
}

/// The configuration in force. Whoever works by it looks here whenever it looks around.
#[derive(Clone)]
struct InForce(Arc<Mutex<Arc<Config>>>);

impl InForce {
    fn get(&self) -> Arc<Config> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Puts another one in force, and tells that.
    fn set(&self, config: Arc<Config>, shared: &Shared) {
        let exporter = &mut shared.lock().exporter;
        exporter.runs_limit = config.run_max;
        exporter.looks_for = config.logs.iter().map(|log| log.path.clone()).collect();
        exporter.config_error = None;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }
}

/// Why a waiting thread goes on.
enum Wake {
    /// A watched folder has changed, a file system has answered, or there is another configuration.
    Files,
    /// The program ends.
    Stop,
}

/// The threads that run.
pub struct Threads {
    config: InForce,
    wakes: Vec<SyncSender<Wake>>,
    /// Disconnects when the last thread has ended.
    done: Receiver<()>,
}

/// Starts the threads.
pub fn start(
    config: Arc<Config>,
    sources: Sources,
    pace: Pace,
    shared: &Shared,
) -> std::io::Result<Threads> {
    let in_force = InForce(Arc::new(Mutex::new(config.clone())));
    in_force.set(config, shared);
    let (alive, done) = sync_channel(0);
    let mut threads = Threads {
        config: in_force.clone(),
        wakes: Vec::new(),
        done,
    };
    let (state, for_files) = (shared.clone(), in_force.clone());
    threads.spawn("files", &alive, move |wakes, waker| {
        files::run(&for_files, pace, &state, wakes, waker);
    })?;
    if let Some(mut gpus) = sources.gpus {
        let state = shared.clone();
        threads.spawn("gpus", &alive, move |wakes, _| {
            looks::gpus(gpus.as_mut(), pace, &state, wakes)
        })?;
    }
    if let Some(mut processes) = sources.processes {
        let state = shared.clone();
        threads.spawn("processes", &alive, move |wakes, _| {
            looks::processes(processes.as_mut(), &in_force, pace, &state, wakes);
        })?;
    }
    Ok(threads)
}

impl Threads {
    fn spawn(
        &mut self,
        name: &'static str,
        alive: &SyncSender<()>,
        mut body: impl FnMut(&Receiver<Wake>, &SyncSender<Wake>) + Send + 'static,
    ) -> std::io::Result<()> {
        // One pending wake says all that two would say.
        let (waker, wakes) = sync_channel(1);
        self.wakes.push(waker.clone());
        let alive = alive.clone();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                while catch_unwind(AssertUnwindSafe(|| body(&wakes, &waker))).is_err() {
                    tracing::error!(thread = name, "a reading panicked; it begins again");
                    thread::sleep(Duration::from_secs(1));
                }
                drop(alive);
            })?;
        Ok(())
    }

    /// Puts another configuration in force: what it says of a run that goes on applies to it from here on. False if it
    /// is the one that is in force.
    pub fn reload(&self, mut config: Config, shared: &Shared) -> bool {
        let old = self.config.get();
        let changed = config != *old;
        if config.presets == old.presets {
            config.presets = old.presets.clone();
        }
        self.config
            .set(if changed { Arc::new(config) } else { old }, shared);
        for wake in &self.wakes {
            // A full channel: the thread wakes anyway.
            let _ = wake.try_send(Wake::Files);
        }
        changed
    }

    /// Ends the threads and waits for them, at most so long. False if one hangs.
    pub fn stop(self, patience: Duration) -> bool {
        for wake in &self.wakes {
            // A full channel: the thread wakes anyway and looks again soon; tell it until it hears.
            let wake = wake.clone();
            thread::spawn(move || wake.send(Wake::Stop));
        }
        drop(self.wakes);
        matches!(
            self.done.recv_timeout(patience),
            Err(RecvTimeoutError::Disconnected)
        )
    }
}

/// Waits for the next wake. False when the program ends.
fn wait(wakes: &Receiver<Wake>, pause: Duration) -> bool {
    match wakes.recv_timeout(pause) {
        Ok(Wake::Files) | Err(RecvTimeoutError::Timeout) => true,
        Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => false,
    }
}

/// Now, in seconds since the epoch.
#[expect(clippy::disallowed_methods, reason = "the threads' clock")]
pub fn now() -> Unix {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
