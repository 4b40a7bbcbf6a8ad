//! What a person may see of the state at one moment, in one form for the page and for `/api/v1/runs`.
//!
//! No argument list and no text of a log is in it. Lengths of time are in seconds; unknown is left out.

use serde::Serialize;

use crate::job::verdict::{Facts, Seconds, Silence, Verdict, because, judge};
use crate::job::{Phase, Unix};
use crate::node::gpu::Gpu;
use crate::state::{Run, State};

/// The whole view.
#[derive(Debug, Serialize)]
pub struct View {
    /// The exporter's version.
    pub version: &'static str,
    /// Unix time of this view.
    pub now: Unix,
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
    /// The verdict in words.
    pub headline: String,
    /// Which witness says what.
    pub because: String,
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
    pub processes: Option<u64>,
    pub gpus: Vec<GpuView>,
    pub log: LogView,
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
    pub last_write_age: Option<f64>,
}

impl View {
    /// The view of `state` at `now`.
    pub fn of(state: &State, now: Unix) -> Self {
        let gpus = state.gpus.data.as_deref().unwrap_or_default();
        let mut runs: Vec<RunView> = state
            .runs
            .values()
            .map(|run| RunView::of(run, gpus, now))
            .collect();
        let rank = |run: &RunView| {
            (
                run.level == "ok",
                run.level == "warning",
                run.phase == "finished",
            )
        };
        runs.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.run.cmp(&b.run)));
        Self {
            version: env!("CARGO_PKG_VERSION"),
            now,
            runs,
            blind_spots: blind_spots(state),
        }
    }
}

impl RunView {
    fn of(run: &Run, gpus: &[Gpu], now: Unix) -> Self {
        let facts = run.facts(gpus, now);
        let verdict = judge(&facts);
        let job = &run.job;
        let validation = job
            .validation_progress()
            .zip(job.source())
            .map(|(progress, source)| Validation {
                done: progress.done,
                total: progress.of,
                ratio: progress.ratio(),
                source: source.name(),
                longest: job.longest_pass(),
            });
        let clock = |silence: Option<Silence>, learned| {
            silence.map(|Silence { age, ceiling }| Clock {
                age,
                ceiling,
                learned,
            })
        };
        let (recompiles, recompile_limit_hits) = job.recompiles();
        Self {
            run: run.name.clone(),
            user: run.info.user.clone(),
            team: run.info.team.clone(),
            framework: run.info.framework.clone(),
            verdict: verdict.name(),
            level: verdict.level(),
            headline: headline(verdict, &facts, run, validation),
            because: because(&facts),
            phase: job.phase.name(),
            phase_age: job.phase_since.map(|since| (now - since).max(0.0)),
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
            gpus: run
                .own_gpus(gpus)
                .map(|gpu| GpuView {
                    gpu: gpu.index,
                    state: gpu.state.name(),
                    util: gpu.util,
                    power_watts: gpu.power_watts,
                    power_limit_watts: gpu.power_limit_watts,
                    memory_used_bytes: gpu.memory_used_bytes,
                })
                .collect(),
            log: LogView {
                path: run.info.log_path.clone(),
                up: run.log.up,
                error: run.log.error.clone(),
                bytes: run.log.bytes,
                last_write_age: run.log.last_write.map(|at| (now - at).max(0.0)),
            },
        }
    }
}

/// The verdict as one sentence, with the numbers that carry it.
fn headline(verdict: Verdict, facts: &Facts, run: &Run, validation: Option<Validation>) -> String {
    let mut text = verdict.meaning().to_owned();
    if facts.phase.over() {
        return text;
    }
    match verdict {
        Verdict::NotJudged if !run.log.up => {
            return text + ": its log is not there, or cannot be read";
        }
        Verdict::NotJudged if !run.alive && run.job.enrolled => {
            return text + ": no sign of life since the exporter started, so this is history";
        }
        Verdict::NotJudged if facts.phase == Phase::Unknown && run.job.enrolled => {
            return text
                + ": no preset names the phases of this log, so only its numbers are shown";
        }
        Verdict::NotJudged => return text + " yet: it has not begun to train",
        Verdict::Suspended => {
            return text
                + ": all its processes are stopped, traced or frozen; its clocks stand still meanwhile";
        }
        Verdict::Finished
        | Verdict::Cancelled
        | Verdict::Preempted
        | Verdict::Failed
        | Verdict::Vanished
        | Verdict::Closing
        | Verdict::Blind
        | Verdict::ValidationIdle
        | Verdict::Training
        | Verdict::Validating
        | Verdict::Checkpointing
        | Verdict::Starting
        | Verdict::LostRank
        | Verdict::Waiting
        | Verdict::Hung
        | Verdict::Slow
        | Verdict::Unproven => {}
    }
    if matches!(
        verdict,
        Verdict::Hung | Verdict::LostRank | Verdict::Unproven | Verdict::Slow
    ) {
        text += &format!(" in {}", facts.phase.name());
    }
    if let Some(Validation {
        done,
        total,
        source,
        longest,
        ..
    }) = validation
    {
        let unit = if source == "files" {
            "validation files read"
        } else {
            "batches"
        };
        text += &match total {
            Some(total) => format!(": {} of {} {unit}", grouped(done), grouped(total)),
            None => format!(": {} {unit}", grouped(done)),
        };
        if let Some(Silence { age, .. }) = facts.progress {
            text += &format!(", the last one {} ago", Seconds(age));
        }
        if let Some(longest) = longest {
            text += &format!("; the longest validation before took {}", Seconds(longest));
        }
    } else if let Some(Silence { age, .. }) = facts.progress {
        text += &format!(": last progress {} ago", Seconds(age));
    }
    if run.job.stopping.is_some() {
        text += "; it was asked to stop";
    }
    text
}

/// A count with commas between thousands.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What nobody can know from here, and what to do about it.
fn blind_spots(state: &State) -> Vec<String> {
    let mut spots = Vec::new();
    if state.runs.is_empty() {
        spots.push(
            "No run was found. Start the exporter with --log.path and the path of a training's log, or a pattern."
                .to_owned(),
        );
    }
    match (&state.gpus.data, &state.gpus.error) {
        (None, Some(e)) => spots.push(format!("GPUs cannot be read: {e}")),
        (None, None) => spots.push("GPUs are not looked at.".to_owned()),
        (Some(_), _) => {}
    }
    for run in state.runs.values() {
        if let Some(e) = &run.log.error {
            spots.push(format!("{}: its log cannot be read: {e}", run.name));
        }
        if run.shares_data {
            spots.push(format!(
                "{}: another run validates on the same folder, so whose files are opened cannot be told",
                run.name
            ));
        }
        if run.job.files.is_some_and(|files| !files.whole) {
            spots.push(format!(
                "{}: this validation was not seen from its beginning, so how far it is cannot be told",
                run.name
            ));
        }
        if run.processes.is_none() && run.job.phase.live() {
            spots.push(format!(
                "{}: its processes cannot be seen, so only time can prove a hang",
                run.name
            ));
        }
    }
    for (name, source) in &state.sources {
        if *name != "nvml"
            && let Some(e) = &source.error
        {
            spots.push(format!("{name}: {e}"));
        }
    }
    spots
}

#[cfg(test)]
mod tests {
    #[test]
    fn counts_have_commas() {
        assert_eq!(
            [0, 999, 1866, 1_234_567].map(super::grouped),
            ["0", "999", "1,866", "1,234,567"]
        );
    }
}
