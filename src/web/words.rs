//! What the page says in words: the verdict, what to do first, and what nobody can see here. Facts in, sentences out.

use std::collections::BTreeMap;

use serde::Serialize;

use super::view::{Processes, Validation};
use super::witness::hangs;
use crate::job::asked::Source;
use crate::job::verdict::reason::Seconds;
use crate::job::verdict::{Facts, Silence, Verdict};
use crate::job::{Phase, Unix};
use crate::node::gpu::NONE;
use crate::node::process::Witnessed;
use crate::state::{Log, Run, State};

/// So many are named one by one.
const NAMED: usize = 3;

/// The verdict as a title and, where there is more to say, the numbers that carry it.
pub(super) fn verdict(
    verdict: Verdict,
    facts: &Facts,
    run: &Run,
    validation: Option<&Validation>,
) -> (String, String) {
    let mut title = verdict.meaning().to_owned();
    if facts.phase.over() {
        return (title, String::new());
    }
    let why = match verdict {
        Verdict::NotJudged if run.log.unread() => "its log has just been taken up",
        Verdict::NotJudged if !run.log.up || run.log.stalled => {
            "its log is not there, or cannot be read"
        }
        Verdict::NotJudged if !run.alive && run.job.enrolled => {
            "no sign of life since the exporter started, so this is history"
        }
        Verdict::NotJudged if facts.phase == Phase::Unknown && run.job.enrolled => {
            "no preset names the phases of this log, so only its numbers are shown"
        }
        Verdict::NotJudged if run.unparsed() => return (title, unparsed(&run.log)),
        Verdict::NotJudged => {
            title += " yet";
            "its log has told no phase and no step"
        }
        Verdict::Suspended => {
            "all its processes are stopped, traced or frozen; its clocks stand still meanwhile"
        }
        Verdict::Hung | Verdict::Unproven | Verdict::Slow => {
            title += &format!(" in {}", facts.phase.name());
            ""
        }
        Verdict::LostRank => {
            title = format!("Hung in {}: a rank is stopped or gone", facts.phase.name());
            ""
        }
        Verdict::Blind if run.log.stalled => {
            title = "Blind: its log does not answer".to_owned();
            "nothing below is newer than the last answer"
        }
        Verdict::Blind => "what is told below may be old",
        Verdict::Finished
        | Verdict::Cancelled
        | Verdict::Preempted
        | Verdict::Failed
        | Verdict::Vanished
        | Verdict::Closing
        | Verdict::ValidationIdle
        | Verdict::Training
        | Verdict::Validating
        | Verdict::Checkpointing
        | Verdict::Starting
        | Verdict::Waiting => "",
    };
    if !why.is_empty() {
        return (title, why.to_owned());
    }
    let alarming = verdict.level() != "ok";
    (title, numbers(facts, run, validation, alarming))
}

/// That a log of many lines tells nothing of what the run does.
fn unparsed(log: &Log) -> String {
    let lines = grouped(log.lines);
    match log.matched {
        0 => format!("not one of the {lines} lines of its log is understood"),
        n => format!(
            "none of the {lines} lines of its log tells a phase or a step; {} tell something else",
            grouped(n)
        ),
    }
}

/// Why nothing is known of its processes.
pub(super) fn unseen(run: &Run) -> &'static str {
    match run.hidden {
        Some(true) => {
            "its processes cannot be seen: run the exporter as the training's user, or grant it CAP_SYS_PTRACE"
        }
        Some(false) => NOBODY,
        None => "its processes have not been looked at yet",
    }
}

/// Why a log that is read has no process.
pub const NOBODY: &str = "no process of this node writes its log: it has ended without a word, runs on another node, or opens its log for \
     each line";

/// How far it is, and since when.
fn numbers(facts: &Facts, run: &Run, validation: Option<&Validation>, alarming: bool) -> String {
    let mut text = match (validation, facts.progress) {
        (Some(validation), progress) => {
            let unit = unit(validation.source);
            let done = grouped(validation.done);
            let mut text = match validation.total {
                Some(total) => format!("{done} of {} {unit}", grouped(total)),
                None => format!("{done} {unit}"),
            };
            match progress {
                Some(Silence { age, .. }) if alarming => {
                    text += &format!(", then nothing for {}", Seconds(age));
                }
                Some(Silence { age, .. }) => {
                    text += &format!(", the last one {} ago", Seconds(age));
                }
                None => {}
            }
            if let Some(took) = validation.last_seconds.or(validation.longest) {
                text += &format!("; the last validation took {}", Seconds(took));
            }
            text
        }
        (None, Some(Silence { age, .. })) => format!("last progress {} ago", Seconds(age)),
        (None, None) => String::new(),
    };
    if let Some(Silence { age, ceiling }) = facts.progress
        && !alarming
        && age > ceiling / 2.0
    {
        text += &format!("; it would be late after {}", Seconds(ceiling));
    }
    if run.job.stopping.is_some() {
        text += "; it was asked to stop";
    }
    text
}

fn unit(source: &str) -> &'static str {
    if source == Source::Files.name() {
        "validation files read"
    } else {
        "batches"
    }
}

/// What to do first.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// The runbook's name: `/runbooks/NAME` here, and `alerts/runbooks/NAME.md` in the repository.
    pub runbook: &'static str,
    /// Its first command, for this run.
    pub command: String,
}

/// The first step for a run that somebody should look at.
pub(super) fn first_step(
    verdict: Verdict,
    phase: Phase,
    run: &Run,
    processes: Option<&Processes>,
) -> Option<Step> {
    let log = quoted(&run.info.log_path);
    let pids = processes.map_or(&[][..], |p| &p.pids);
    let stuck = processes.is_some_and(|p| p.uninterruptible > 0);
    let rank = pids.first().map(|pid| match stuck {
        // A debugger would wait for such a process as everybody does.
        true => format!("sudo cat /proc/{pid}/stack"),
        false => format!("sudo py-spy dump --pid {pid}"),
    });
    let tail = format!("tail -c 4000 {log} | tr '\\r' '\\n'");
    let list: Vec<String> = pids.iter().map(u32::to_string).collect();
    let states = if list.is_empty() {
        tail.clone()
    } else {
        format!("ps -o pid,stat,wchan:32,etime,args -p {}", list.join(","))
    };
    let (runbook, command) = match verdict {
        Verdict::Hung => (
            match phase {
                Phase::Validation => "TrainingValidationHung",
                Phase::Checkpoint => "TrainingCheckpointHung",
                Phase::Init => "TrainingStartupHung",
                Phase::Train | Phase::Finished | Phase::Failed | Phase::Unknown => "TrainingHung",
            },
            rank.unwrap_or(tail),
        ),
        Verdict::LostRank => ("TrainingHung", states),
        Verdict::Failed => ("TrainingRunFailed", tail),
        Verdict::Vanished => ("TrainingRunVanished", tail),
        Verdict::Closing => ("TrainingShutdownStuck", states),
        Verdict::Blind => ("TrainingLogNotFollowed", format!("timeout 10 ls -l {log}")),
        Verdict::Suspended => ("TrainingRunSuspended", states),
        Verdict::Waiting | Verdict::Slow | Verdict::Unproven => {
            ("TrainingStalled", rank.unwrap_or(tail))
        }
        Verdict::NotJudged if run.unparsed() => (
            "TrainingLogUnparsed",
            format!("training-exporter replay --format text {log} | tail"),
        ),
        Verdict::Finished
        | Verdict::Cancelled
        | Verdict::Preempted
        | Verdict::NotJudged
        | Verdict::ValidationIdle
        | Verdict::Training
        | Verdict::Validating
        | Verdict::Checkpointing
        | Verdict::Starting => return None,
    };
    Some(Step { runbook, command })
}

/// One word for a shell, whatever is in it.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,@%:=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// What nobody can know from here, and what to do about it.
pub(super) fn blind_spots(state: &State, now: Unix) -> Vec<String> {
    let mut spots = Vec::new();
    match (&state.gpus.data, &state.gpus.error) {
        (None, Some(e)) if e.starts_with(NONE) => spots.push(sentence(e)),
        (None, Some(e)) => spots.push(format!("GPUs cannot be read: {e}")),
        (None, None) => spots.push("GPUs are not looked at.".to_owned()),
        (Some(_), _) => {}
    }
    if let Some(e) = &state.exporter.config_error {
        spots.push(format!(
            "the newest configuration was refused, and the one before stays in force: {e}"
        ));
    }
    let full = state.runs.len() >= state.exporter.runs_limit;
    if full && state.exporter.runs_dropped > 0 {
        spots.push(format!(
            "{} logs are not followed, since {} runs are the most: raise run_max in the configuration.",
            grouped(state.exporter.runs_dropped),
            state.exporter.runs_limit
        ));
    }
    let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for run in state.runs.values() {
        for spot in of_run(run) {
            alike.entry(spot).or_default().push(&run.name);
        }
    }
    spots.extend(alike.into_iter().map(|(spot, runs)| {
        let more = match runs.len().saturating_sub(NAMED) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let names = runs[..runs.len().min(NAMED)].join(", ");
        format!("{names}{more}: {spot}")
    }));
    for (name, source) in &state.sources {
        if let Some(e) = source.error.as_ref().filter(|_| *name != "nvml") {
            spots.push(format!("{name}: {e}"));
        } else if let Some(hangs) = hangs(state, name, now) {
            spots.push(format!("{name}: {hangs}"));
        }
    }
    spots
}

fn of_run(run: &Run) -> Vec<String> {
    let mut spots = Vec::new();
    if let Some(e) = &run.log.error {
        spots.push(format!("its log cannot be read: {e}"));
    }
    if run.log.blocks.buffered() == Some(true) {
        spots.push(
            "its log comes in blocks, minutes late: start the training with PYTHONUNBUFFERED=1"
                .to_owned(),
        );
    }
    if run.shares_data {
        spots.push(
            "another run validates on the same folder, so whose files are opened cannot be told"
                .to_owned(),
        );
    }
    if run.job.files.is_some_and(|files| !files.whole) {
        spots.push(
            "this validation was not seen from its beginning, so how far it is cannot be told"
                .to_owned(),
        );
    }
    if run.unparsed() {
        spots.push(
            "no phase or step is found in its log: what is read in it tells `training-exporter replay LOG`; how to have \
             more read, the README under \"Add your trainer\""
                .to_owned(),
        );
    }
    if run.processes.is_none() && run.hidden.is_some() && run.job.phase.live() {
        spots.push(format!("only time can prove a hang, since {}", unseen(run)));
    }
    if !run.processes.as_ref().is_none_or(Witnessed::may_convict) {
        spots.push(
            "what its processes read and write cannot be seen, so their silence proves nothing; run the exporter as the \
             training's user, or grant it CAP_SYS_PTRACE"
                .to_owned(),
        );
    }
    spots
}

/// The mean; absent of nothing.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// The text as a sentence begins.
pub(super) fn sentence(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
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

#[cfg(test)]
mod tests;
