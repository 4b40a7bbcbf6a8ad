//! What a person may see of the state at one moment, in one form for the page and for `/api/v1/runs`.
//!
//! No argument list and no text of a log is in it. Lengths of time are in seconds, times are Unix seconds, and what is
//! unknown is left out (in lists of samples: `null`). Fields are only added: what is there keeps its name and meaning.

use serde::Serialize;
use serde_json::Value;

use super::witness::{Witness, witnesses};
use super::words::{self, Step};
use crate::job::verdict::reason::because;
use crate::job::verdict::{Silence, judge};
use crate::job::{Phase, Unix};
use crate::node::gpu::Gpu;
use crate::state::{Run, State};

/// The most process ids that are named.
const PIDS: usize = 32;

/// The whole view.
#[derive(Debug, Serialize)]
pub struct View {
    /// The exporter's version.
    pub version: &'static str,
    /// The node's name.
    pub host: String,
    /// Unix time of this view.
    pub now: Unix,
    /// The logs have been looked at, and are being looked at: only then an empty list of runs means that there is none.
    pub looking: bool,
    /// The logs that are looked for: paths and patterns.
    pub looks_for: Vec<String>,
    /// The runs, those that need somebody first.
    pub runs: Vec<RunView>,
    /// What the exporter cannot see, and how to mend it.
    pub blind_spots: Vec<String>,
}

/// One run.
#[derive(Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the names are those of the metrics, where each has its help"
)]
pub struct RunView {
    pub run: String,
    pub user: String,
    pub team: String,
    pub framework: String,
    pub verdict: &'static str,
    /// `critical`, `warning`, `ok`, or `unknown` where it is not judged.
    pub level: &'static str,
    /// The verdict in words: title and detail.
    pub headline: String,
    /// The verdict in a few words.
    #[serde(skip)]
    pub title: String,
    /// The numbers that carry it.
    #[serde(skip)]
    pub detail: String,
    /// Which witness says what, in one line.
    pub because: String,
    /// What each witness says.
    pub witnesses: Vec<Witness>,
    /// What to do first; absent where nobody need do anything.
    pub first_step: Option<Step>,
    pub phase: &'static str,
    pub phase_age: Option<f64>,
    pub epoch: Option<u64>,
    pub epochs: Option<u64>,
    pub step: Option<u64>,
    pub steps: Option<u64>,
    pub validation: Option<Validation>,
    /// Clock P.
    pub progress: Option<Clock>,
    /// Clock Q.
    pub work: Option<Clock>,
    pub recompiles: u64,
    pub recompile_limit_hits: u64,
    /// Live ranks and loader workers.
    pub processes: Option<u64>,
    /// More about them.
    pub process: Option<Processes>,
    pub gpus: Vec<GpuView>,
    pub log: LogView,
    pub timeline: Timeline,
}

/// The running validation.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the names are those of the metrics, where each has its help"
)]
pub struct Validation {
    pub done: u64,
    pub total: Option<u64>,
    pub ratio: Option<f64>,
    pub source: &'static str,
    /// How long the longest earlier one took.
    pub longest: Option<f64>,
    /// How long the last one took.
    pub last_seconds: Option<f64>,
    /// How long this one still takes, if it goes on like the last one, or else as it went so far. Absent while it stands still.
    pub remaining_seconds: Option<f64>,
}

/// A clock against its ceiling.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Clock {
    /// Seconds since it was last marked.
    pub age: f64,
    /// Seconds that are still healthy.
    pub ceiling: f64,
    /// The ceiling comes from what this run has shown.
    pub learned: bool,
}

/// The processes of a run.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the names are those of the metrics, where each has its help"
)]
pub struct Processes {
    pub ranks: Option<u64>,
    pub workers: Option<u64>,
    pub stopped: u64,
    pub uninterruptible: u64,
    pub stdout_blocked: Option<u64>,
    /// The first 32, ranks before workers.
    pub pids: Vec<u32>,
}

/// One GPU of a run.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the names are those of the metrics, where each has its help"
)]
pub struct GpuView {
    pub gpu: u32,
    pub state: &'static str,
    pub util: Option<f64>,
    pub power_watts: Option<f64>,
    pub power_limit_watts: Option<f64>,
    pub memory_used_bytes: Option<f64>,
    pub memory_capacity_bytes: Option<f64>,
}

/// The log of a run.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the names are those of the metrics, where each has its help"
)]
pub struct LogView {
    pub path: String,
    pub up: bool,
    pub error: Option<String>,
    pub bytes: u64,
    pub lag_bytes: u64,
    pub lines: u64,
    pub lines_matched: u64,
    pub rotations: u64,
    pub block_buffered: Option<bool>,
    pub last_write_age: Option<f64>,
}

/// The last hours of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// Its phases, oldest first.
    pub phases: Vec<SpanView>,
    /// When the first sample's time begins.
    pub samples_begin: Unix,
    /// How long the time of each sample is.
    pub sample_seconds: f64,
    /// Mean utilisation of its GPUs, 0 to 1; `null` where nothing was read.
    pub util: Vec<Option<f64>>,
    /// Mean power of its GPUs.
    pub power_watts: Vec<Option<f64>>,
}

/// A time spent in one phase.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SpanView {
    /// The phase.
    pub phase: &'static str,
    /// When it began.
    pub begin: Unix,
    /// When it ended; absent for the one under way.
    pub end: Option<Unix>,
}

impl View {
    /// The view of `state` at `now`.
    pub fn of(state: &State, now: Unix) -> Self {
        let mut runs: Vec<RunView> = state
            .runs
            .values()
            .map(|run| RunView::of(run, state, now))
            .collect();
        let rank = |run: &RunView| {
            let level = ["critical", "warning"].iter().position(|l| *l == run.level);
            (level.unwrap_or(usize::MAX), run.phase == "finished")
        };
        runs.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.run.cmp(&b.run)));
        Self {
            version: env!("CARGO_PKG_VERSION"),
            host: state.exporter.host.clone(),
            now,
            looking: state.exporter.ready && !state.stalled(now),
            looks_for: state.exporter.looks_for.clone(),
            runs,
            blind_spots: words::blind_spots(state, now),
        }
    }

    /// As `/api/v1/runs` gives it: unknown is left out.
    pub fn json(&self) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        leave_out_unknown(&mut value);
        value
    }
}

fn leave_out_unknown(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(leave_out_unknown);
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out_unknown),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl RunView {
    fn of(run: &Run, state: &State, now: Unix) -> Self {
        let gpus = state.gpus.data.as_deref().unwrap_or_default();
        let facts = run.facts(gpus, now);
        let verdict = judge(&facts);
        let job = &run.job;
        let phase_age = job.phase_since.map(|since| (now - since).max(0.0));
        // What stands still at the moment goes on nobody knows when.
        let moves = facts
            .progress
            .is_some_and(|progress| progress.age <= job.limits().work_window);
        let validation = validation(run, phase_age, moves && verdict.level() == "ok");
        let clock = |silence: Option<Silence>, learned| {
            silence.map(|Silence { age, ceiling }| Clock {
                age,
                ceiling,
                learned,
            })
        };
        let (recompiles, recompile_limit_hits) = job.recompiles();
        let (title, detail) = words::verdict(verdict, &facts, run, validation.as_ref());
        let process = run.processes.as_ref().map(|witnessed| {
            let counters = &witnessed.seen.counters;
            let ranks = witnessed.seen.ranks;
            Processes {
                ranks,
                workers: ranks.map(|ranks| counters.processes.saturating_sub(ranks)),
                stopped: counters.stopped,
                uninterruptible: counters.uninterruptible,
                stdout_blocked: counters.stdout_blocked,
                pids: witnessed.seen.pids.iter().copied().take(PIDS).collect(),
            }
        });
        Self {
            run: run.name.clone(),
            user: run.info.user.clone(),
            team: run.info.team.clone(),
            framework: run.info.framework.clone(),
            verdict: verdict.name(),
            level: verdict.level(),
            headline: if detail.is_empty() {
                title.clone()
            } else {
                format!("{title}: {detail}")
            },
            title,
            detail,
            because: because(&facts),
            witnesses: witnesses(run, &facts, state, now),
            first_step: words::first_step(verdict, job.phase, run, process.as_ref()),
            phase: job.phase.name(),
            phase_age,
            epoch: job.epoch,
            epochs: job.epochs,
            step: job.step.map(|step| step.done),
            steps: job.step.and_then(|step| step.of),
            validation,
            progress: clock(facts.progress, job.learned()),
            work: clock(facts.work, false),
            recompiles,
            recompile_limit_hits,
            processes: facts.processes,
            process,
            gpus: run.own_gpus(gpus).map(GpuView::of).collect(),
            log: LogView::of(run, now),
            timeline: Timeline::of(run),
        }
    }
}

fn validation(run: &Run, elapsed: Option<f64>, moves: bool) -> Option<Validation> {
    let job = &run.job;
    let (progress, source) = job.validation_progress().zip(job.source())?;
    let ratio = progress.ratio();
    let last = run.history.last(Phase::Validation);
    let left = |ratio: f64, elapsed: f64| match last.or(job.longest_pass()) {
        Some(took) => Some(took * (1.0 - ratio)),
        // A pass that has barely begun tells nothing of its pace.
        None => (ratio >= 0.05).then(|| elapsed * (1.0 - ratio) / ratio),
    };
    Some(Validation {
        done: progress.done,
        total: progress.of,
        ratio,
        source: source.name(),
        longest: job.longest_pass(),
        last_seconds: last,
        remaining_seconds: ratio
            .zip(elapsed)
            .filter(|_| moves)
            .and_then(|(ratio, elapsed)| left(ratio, elapsed)),
    })
}

impl GpuView {
    fn of(gpu: &Gpu) -> Self {
        Self {
            gpu: gpu.index,
            state: if gpu.up { gpu.state.name() } else { "lost" },
            util: gpu.util,
            power_watts: gpu.power_watts,
            power_limit_watts: gpu.power_limit_watts,
            memory_used_bytes: gpu.memory_used_bytes,
            memory_capacity_bytes: gpu.memory_capacity_bytes,
        }
    }
}

impl LogView {
    fn of(run: &Run, now: Unix) -> Self {
        let log = &run.log;
        Self {
            path: run.info.log_path.clone(),
            up: log.up && !log.stalled,
            error: log.error.clone(),
            bytes: log.bytes,
            lag_bytes: log.lag,
            lines: log.lines,
            lines_matched: log.matched,
            rotations: log.rotations,
            block_buffered: log.blocks.buffered(),
            last_write_age: log.last_write.map(|at| (now - at).max(0.0)),
        }
    }
}

impl Timeline {
    fn of(run: &Run) -> Self {
        let rounded = |value: f64| (1e3 * value).round() / 1e3;
        let (samples_begin, sample_seconds) = run.history.slots();
        let (util, power_watts) = run
            .history
            .samples()
            .map(|(util, watts)| (util.map(rounded), watts.map(rounded)))
            .unzip();
        Self {
            phases: run
                .history
                .phases()
                .map(|span| SpanView {
                    phase: span.phase.name(),
                    begin: span.begin,
                    end: span.end,
                })
                .collect(),
            samples_begin,
            sample_seconds,
            util,
            power_watts,
        }
    }
}
