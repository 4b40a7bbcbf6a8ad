//! What the page says in words: the verdict, what each witness says, what to do first, and what nobody can see here.
//!
//! Facts in, sentences out. Nothing comforts that rests on what is old: where a source is silent, its witness is `blind`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::view::{Processes, Validation};
use crate::job::asked::Source;
use crate::job::verdict::{Facts, Seconds, Silence, Verdict};
use crate::job::{Phase, Unix};
use crate::node::process::{Evidence, Witnessed};
use crate::state::{Run, State};

/// A source that has not ended a look for so long, in seconds, hangs.
const STALE: f64 = 60.0;
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
        Verdict::NotJudged if !run.log.up || run.log.stalled => {
            "its log is not there, or cannot be read"
        }
        Verdict::NotJudged if !run.alive && run.job.enrolled => {
            "no sign of life since the exporter started, so this is history"
        }
        Verdict::NotJudged if facts.phase == Phase::Unknown && run.job.enrolled => {
            "no preset names the phases of this log, so only its numbers are shown"
        }
        Verdict::NotJudged => {
            title += " yet";
            "it has not begun to train"
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

/// One of the four witnesses.
#[derive(Clone, Debug, Serialize)]
pub struct Witness {
    /// `log`, `processes`, `gpus` or `files`.
    pub witness: &'static str,
    /// `moves`, `still`, `busy` (which proves nothing), `rests` (it has nothing to say now) or `blind`.
    pub says: &'static str,
    /// The same in words, and where it is blind, what would help.
    pub words: String,
}

/// What each of the four says.
pub(super) fn witnesses(run: &Run, facts: &Facts, state: &State, now: Unix) -> Vec<Witness> {
    let all = [
        ("log", log(run, now)),
        ("processes", processes(run, facts, state, now)),
        ("gpus", gpus(run, facts, state, now)),
        ("files", files(run, facts)),
    ];
    let all = all.into_iter();
    all.map(|(witness, (says, words))| Witness {
        witness,
        says,
        words,
    })
    .collect()
}

fn log(run: &Run, now: Unix) -> (&'static str, String) {
    let log = &run.log;
    if log.stalled {
        return (
            "blind",
            "A log or its file system does not answer.".to_owned(),
        );
    }
    if let Some(error) = &log.error {
        return ("blind", format!("It cannot be read: {error}"));
    }
    let Some(written) = log.last_write.filter(|_| log.up) else {
        return ("blind", "It is not there.".to_owned());
    };
    let age = (now - written).max(0.0);
    let moves = age <= run.job.limits().work_window;
    let words = format!("Last written {} ago.", Seconds(age));
    (if moves { "moves" } else { "still" }, words)
}

fn processes(run: &Run, facts: &Facts, state: &State, now: Unix) -> (&'static str, String) {
    if let Some(hangs) = hangs(state, "process", now) {
        return ("blind", hangs);
    }
    let Some(witnessed) = &run.processes else {
        let words = "They cannot be seen. Run as the training's user, or grant CAP_SYS_PTRACE.";
        return ("blind", words.to_owned());
    };
    let counters = &witnessed.seen.counters;
    if counters.processes == 0 {
        return ("still", "They are gone.".to_owned());
    }
    if witnessed.suspended() {
        return ("still", "All are stopped, traced or frozen.".to_owned());
    }
    let since = run.job.last_work().map(|at| Seconds((now - at).max(0.0)));
    let (says, mut words) = match (witnessed.evidence, since) {
        (Some(Evidence::Work), Some(age)) => ("moves", format!("They work, seen {age} ago.")),
        (Some(Evidence::Work), None) => ("moves", "They work.".to_owned()),
        (Some(Evidence::Busy), _) => (
            "busy",
            "They use the CPU and nothing else, which proves nothing.".to_owned(),
        ),
        (Some(Evidence::Still), Some(age)) => (
            "still",
            format!("None reads, writes or computes: no work for {age}."),
        ),
        (Some(Evidence::Still), None) => ("still", "None reads, writes or computes.".to_owned()),
        (None, _) => ("rests", "Not watched for long enough yet.".to_owned()),
    };
    for (count, state) in [
        (facts.stopped, "stopped"),
        (counters.uninterruptible, "waiting for storage or a driver"),
        (
            counters.stdout_blocked.unwrap_or(0),
            "blocked in a write to stdout",
        ),
    ] {
        if count > 0 {
            words += &format!(" {count} of {} {state}.", counters.processes);
        }
    }
    (says, words)
}

fn gpus(run: &Run, facts: &Facts, state: &State, now: Unix) -> (&'static str, String) {
    if let Some(error) = &state.gpus.error {
        return ("blind", format!("They cannot be read: {error}"));
    }
    if let Some(hangs) = hangs(state, "nvml", now) {
        return ("blind", hangs);
    }
    let count = facts.gpus;
    let all = count.all();
    if all == 0 {
        let words = if run.processes.is_some() {
            "It holds none here."
        } else {
            "Which are its own is not known, since its processes cannot be seen."
        };
        return ("rests", words.to_owned());
    }
    let parts: Vec<String> = [
        (count.working, "at work"),
        (count.idle, "idle"),
        (count.spinning, "spinning: busy at nearly idle power"),
        (count.unknown, "in an unknown state"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| format!("{n} of {all} {what}"))
    .collect();
    let own = || run.own_gpus(state.gpus.data.as_deref().unwrap_or_default());
    let util = mean(own().filter_map(|gpu| gpu.util));
    let watts = mean(own().filter_map(|gpu| gpu.power_watts));
    let draw = util.zip(watts).map_or_else(String::new, |(util, watts)| {
        format!(", at {:.0} % and {watts:.0} W", 100.0 * util)
    });
    let says = match count {
        _ if count.working > 0 => "moves",
        _ if count.unknown == all => "blind",
        _ => "still",
    };
    (says, format!("{}{draw}.", parts.join(", ")))
}

/// The mean; absent of nothing.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn files(run: &Run, facts: &Facts) -> (&'static str, String) {
    if !run.info.val_data {
        let words = "No folder of validation samples is named: --val.data.";
        return ("blind", words.to_owned());
    }
    if facts.phase != Phase::Validation {
        return ("rests", "They speak in a validation.".to_owned());
    }
    if run.shares_data {
        let words = "Another run validates on the same folder: whose they are cannot be told.";
        return ("blind", words.to_owned());
    }
    if run.log.stalled {
        return ("blind", "They are not counted meanwhile.".to_owned());
    }
    let Some(files) = run.job.files else {
        let words = "The folder cannot be watched, or nothing was opened yet.";
        return ("blind", words.to_owned());
    };
    let opened = grouped(files.opened);
    let counts = run.job.source() == Some(Source::Files);
    match facts.progress.filter(|_| counts) {
        Some(Silence { age, .. }) => (
            if age <= run.job.limits().work_window {
                "moves"
            } else {
                "still"
            },
            format!("{opened} opened, the last one {} ago.", Seconds(age)),
        ),
        None => ("rests", format!("{opened} opened.")),
    }
}

/// That a source began a look and has not come back.
fn hangs(state: &State, source: &str, now: Unix) -> Option<String> {
    let source = state.sources.get(source).filter(|source| source.success)?;
    let last = source.last_success?;
    (now - last > STALE).then(|| {
        format!(
            "Not looked at for {}: what is known of them is old.",
            Seconds(now - last)
        )
    })
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
    let rank = pids.first().map(|pid| format!("py-spy dump --pid {pid}"));
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

/// A path as one word of a shell, whatever is in it.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@=,".contains(c);
    if !path.is_empty() && path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

/// What nobody can know from here, and what to do about it.
pub(super) fn blind_spots(state: &State, now: Unix) -> Vec<String> {
    let mut spots = Vec::new();
    match (&state.gpus.data, &state.gpus.error) {
        (None, Some(e)) => spots.push(format!("GPUs cannot be read: {e}")),
        (None, None) => spots.push("GPUs are not looked at.".to_owned()),
        (Some(_), _) => {}
    }
    if state.exporter.runs_dropped > 0 {
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
    if run.processes.is_none() && run.job.phase.live() {
        spots.push(
            "its processes cannot be seen, so only time can prove a hang; run the exporter as the training's user, or \
             grant it CAP_SYS_PTRACE"
                .to_owned(),
        );
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
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas() {
        assert_eq!(
            [0, 999, 1866, 1_234_567].map(grouped),
            ["0", "999", "1,866", "1,234,567"]
        );
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(quoted("/runs/a-1/train.log"), "/runs/a-1/train.log");
        assert_eq!(quoted("/runs/$(id) x"), "'/runs/$(id) x'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
