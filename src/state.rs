//! All that a scrape can say, behind one lock.
//!
//! Data and health are kept apart: a failed reading leaves no data, so a stale value is never shown as live. The source
//! threads write here, a scrape renders one snapshot of it and touches nothing else: no driver, no `/proc`, no file.

pub mod history;
pub mod metrics;
pub mod take;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::Alerting;
use crate::job::cadence::Limits;
use crate::job::clock::larger;
use crate::job::verdict::{Facts, GpuCount, Silence};
use crate::job::{Job, Phase, Unix};
use crate::log::blocks::Blocks;
use crate::node::data::Opened;
use crate::node::gpu::{Baselines, Gpu, GpuState};
use crate::node::process::Witnessed;
use history::History;

/// A round of the file thread, and a read of a log, takes less than a second; after so many it hangs.
pub const STALL: f64 = 15.0;

/// A log whose file system is silent for longer teaches nothing, in seconds.
pub const SILENT: f64 = 1.0;

/// A training says what it does within so many lines of its log, if a preset knows its words.
const MANY: u64 = 100;

/// The state, shared by the source threads and the server.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<State>>);

impl Shared {
    /// The state, for a short while: whoever holds it neither reads a file nor waits. A thread that panicked while it
    /// held it has spoilt at most one reading, which the next one replaces.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the exporter knows.
#[derive(Debug, Default)]
pub struct State {
    /// The runs by name.
    pub runs: BTreeMap<String, Run>,
    /// The GPUs of this node.
    pub gpus: Reading<Vec<Gpu>>,
    baselines: Baselines,
    /// When the file thread last began a round.
    pub files_at_work: Option<Unix>,
    /// For how many seconds the driver has not answered.
    pub nvml_blocked: Option<f64>,
    /// How each source does.
    pub sources: Sources,
    /// The exporter itself.
    pub exporter: Exporter,
}

/// A source's newest data and how its readings went. Data is there only if the newest reading gave it.
#[derive(Clone, Debug, Default)]
pub struct Reading<T> {
    /// The data.
    pub data: Option<T>,
    /// Why there is none.
    pub error: Option<String>,
}

/// The health of the four sources, by their label value.
pub type Sources = BTreeMap<&'static str, Source>;

/// How one source does.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The newest reading gave data.
    pub success: bool,
    /// How long it took, in seconds.
    pub duration: f64,
    /// When a reading last gave data.
    pub last_success: Option<Unix>,
    /// Why the newest one gave none.
    pub error: Option<String>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its name: the label `run`.
    pub name: String,
    /// Who and what it is.
    pub info: Info,
    /// What it is doing.
    pub job: Job,
    /// Somebody wrote its log, lived or opened its files since the exporter started. Else all is history, and whether
    /// the run still exists cannot be told.
    pub alive: bool,
    /// Its log, as followed.
    pub log: Log,
    /// Who writes its log may not be seen; absent before the first look.
    pub hidden: Option<bool>,
    /// Its processes; absent without that witness.
    pub processes: Option<Witnessed>,
    /// Its GPUs, by index and uuid.
    pub gpus: Vec<(u32, String)>,
    /// Another run validates on the same folder.
    pub shares_data: bool,
    /// Distinct validation files opened, over all passes; absent where no folder is watched.
    pub files_opened: Option<u64>,
    /// Which they are.
    pub opened: Opened,
    /// Its last hours.
    pub history: History,
}

/// Who and what a run is; empty where unknown.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// The preset that reads its log.
    pub framework: String,
    /// Whose run it is.
    pub user: String,
    /// Whose team's.
    pub team: String,
    /// Slurm's job id.
    pub slurm_job_id: String,
    /// Kubernetes' namespace.
    pub kubernetes_namespace: String,
    /// Kubernetes' pod.
    pub kubernetes_pod: String,
    /// The path of its log.
    pub log_path: String,
    /// A folder of its validation samples is configured.
    pub val_data: bool,
    /// How many nodes it should have, where that is configured.
    pub nodes: Option<u64>,
    /// How loudly its alerts speak, where that is configured.
    pub alerting: Option<Alerting>,
}

/// How following a log goes.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// It is open and can be read.
    pub up: bool,
    /// Its file system does not answer, or the file thread hangs: what is known of it is old.
    pub stalled: bool,
    /// Since when its file system has been asked; absent while nothing is asked.
    pub asked: Option<Unix>,
    /// Where that is mounted.
    pub mount: String,
    /// Why it is only looked at every second, where no event tells of a change.
    pub polled: Option<String>,
    /// Events tell of its changes.
    pub watched: bool,
    /// Why not.
    pub error: Option<String>,
    /// Bytes in the file that are not read yet.
    pub lag: u64,
    /// Only its end is read yet: the counters are not known.
    pub partial: bool,
    /// Bytes read.
    pub bytes: u64,
    /// Lines read.
    pub lines: u64,
    /// Lines that said something.
    pub matched: u64,
    /// Rotations and truncations followed.
    pub rotations: u64,
    /// When the file was last written.
    pub last_write: Option<Unix>,
    /// How it grows.
    pub blocks: Blocks,
}

impl Log {
    /// It has been taken up, and no look at it has ended yet.
    pub fn unread(&self) -> bool {
        !self.up && !self.stalled && self.error.is_none() && self.last_write.is_none()
    }

    /// For how many seconds its file system has not answered.
    pub fn silent_for(&self, now: Unix) -> f64 {
        self.asked.map_or(0.0, |since| now - since)
    }
}

impl Run {
    /// A run of which only the name is known.
    pub fn new(name: &str, limits: Limits) -> Self {
        Self {
            name: name.to_owned(),
            info: Info::default(),
            job: Job::new(limits),
            alive: false,
            log: Log::default(),
            hidden: None,
            processes: None,
            gpus: Vec::new(),
            shares_data: false,
            files_opened: None,
            opened: Opened::default(),
            history: History::default(),
        }
    }

    /// Some of its processes live, as far as they are seen.
    pub fn lives(&self) -> bool {
        self.processes
            .as_ref()
            .is_some_and(|p| p.seen.counters.processes > 0)
    }

    /// Its log has said much, and nothing of what the run does: no phase and no step.
    pub fn unparsed(&self) -> bool {
        let job = &self.job;
        job.phase == Phase::Unknown && job.step.is_none() && self.log.lines >= MANY
    }

    /// Something is known of what it does.
    pub fn enrolled(&self) -> bool {
        self.alive && self.job.enrolled
    }

    /// What the verdict's table looks at.
    pub fn facts(&self, gpus: &[Gpu], now: Unix) -> Facts {
        let (job, processes) = (&self.job, self.processes.as_ref());
        Facts {
            phase: job.phase,
            ended: job.ended.map(|(reason, _)| reason),
            processes: processes.map(|p| p.seen.counters.processes),
            stopped: processes.map_or(0, |p| p.seen.counters.stopped),
            gone: processes.and_then(Witnessed::ranks_gone).unwrap_or(0),
            enrolled: self.enrolled(),
            log_up: self.log.up && !self.log.stalled,
            suspended: processes.is_some_and(Witnessed::suspended),
            progress: Silence::since(job.last_progress(), job.progress_ceiling(), now),
            work: Silence::since(
                larger(job.last_work(), job.last_gpu_work()),
                job.quiet_ceiling(),
                now,
            ),
            quiet_ceiling: job.quiet_ceiling(),
            may_convict: job.last_work().is_some(),
            busy: processes.is_some_and(Witnessed::busy),
            unseen: job.unseen(),
            gpus: self.count(gpus),
            endurance: job.endurance().unwrap_or_default(),
        }
    }

    /// The run's GPUs among those of the node.
    pub fn own_gpus<'a>(&'a self, gpus: &'a [Gpu]) -> impl Iterator<Item = &'a Gpu> {
        gpus.iter()
            .filter(|gpu| self.gpus.iter().any(|(_, uuid)| *uuid == gpu.uuid))
    }

    fn count(&self, gpus: &[Gpu]) -> GpuCount {
        let mut count = GpuCount::default();
        for gpu in self.own_gpus(gpus) {
            match gpu.state {
                GpuState::Idle => count.idle += 1,
                GpuState::Working => count.working += 1,
                GpuState::Spinning => count.spinning += 1,
                GpuState::Unknown => count.unknown += 1,
            }
        }
        count
    }

    /// It makes progress in training at this moment, so its GPUs draw what they draw when they work.
    fn advancing(&self, now: Unix) -> bool {
        let pause = self.job.limits().work_window / 2.0;
        self.job.phase == Phase::Train
            && self
                .job
                .last_progress()
                .is_some_and(|last| now - last <= pause)
    }

    fn holds(&self, gpu: &Gpu) -> bool {
        let pids = self.processes.as_ref().map_or(&[][..], |p| &p.seen.pids);
        gpu.pids
            .as_ref()
            .is_some_and(|holders| holders.iter().any(|pid| pids.contains(pid)))
    }
}

impl State {
    /// The file thread is at work at `now`: time goes by for all runs but those whose file system is silent.
    pub fn tick(&mut self, now: Unix) {
        self.files_at_work = Some(now);
        for run in self.runs.values_mut() {
            if run.log.silent_for(now) > SILENT {
                continue;
            }
            let suspended = run.processes.as_ref().is_some_and(Witnessed::suspended);
            if run.job.tick(now, suspended) {
                run.log.blocks = Blocks::default();
            }
            run.log.stalled = false;
            run.remember_phase(now);
        }
    }

    /// The file thread hangs: nothing is known of any log.
    pub fn stalled(&self, now: Unix) -> bool {
        self.files_at_work.is_some_and(|at| now - at > STALL)
    }

    /// Marks the runs whose file system does not answer, and all runs if the file thread hangs.
    pub fn check_stall(&mut self, now: Unix) {
        let stalled = self.stalled(now);
        for run in self.runs.values_mut() {
            run.log.stalled = stalled || run.log.silent_for(now) > STALL;
        }
        if stalled {
            let error = "the thread that follows logs hangs: no log is read meanwhile".to_owned();
            self.record_source("log", Err(error), 0.0, now);
        }
    }
}

/// The exporter itself.
#[derive(Clone, Debug)]
pub struct Exporter {
    /// The time of this scrape.
    pub now: Unix,
    /// The node's name.
    pub host: String,
    /// The logs that are looked for: paths and patterns.
    pub looks_for: Vec<String>,
    /// Why the newest configuration is not in force; absent while it is.
    pub config_error: Option<String>,
    /// The first look at the logs is done.
    pub ready: bool,
    /// Runs that are exported, and how many may be.
    pub runs: usize,
    /// The most runs that are exported.
    pub runs_limit: usize,
    /// Logs that made no run because the limit was reached.
    pub runs_dropped: u64,
    /// Errors of the file watch; each falls back to looking every second.
    pub watch_errors: u64,
}

impl Default for Exporter {
    fn default() -> Self {
        Self {
            now: 0.0,
            host: String::new(),
            looks_for: Vec::new(),
            config_error: None,
            ready: false,
            runs: 0,
            runs_limit: 0,
            runs_dropped: 0,
            watch_errors: 0,
        }
    }
}

#[cfg(test)]
mod tests;
