//! What each of the four witnesses says of a run now, in a word and in a sentence.
//!
//! Nothing comforts that rests on what is old: where a source is silent, its witness is `blind`.

use serde::Serialize;

use super::words::{grouped, mean, sentence, unseen};
use crate::job::asked::Source;
use crate::job::verdict::reason::Seconds;
use crate::job::verdict::{Facts, Silence};
use crate::job::{Phase, Unix};
use crate::node::gpu::NONE;
use crate::node::process::window::Evidence;
use crate::state::{Run, State};

/// A source that has not ended a look for so long, in seconds, hangs.
const STALE: f64 = 60.0;

/// One of the four witnesses.
#[derive(Clone, Debug, Serialize)]
pub struct Witness {
    /// `log`, `processes`, `gpus` or `files`.
    pub witness: &'static str,
    /// `moves`, `still`, `busy` (which proves nothing), `rests` (it has nothing to say now), `unknown` (it has not been
    /// asked for long enough yet) or `blind`.
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
        let words = match log.asked {
            Some(since) => format!(
                "{} has not answered for {}.",
                log.mount,
                Seconds((now - since).max(0.0))
            ),
            None => "The thread that follows logs hangs.".to_owned(),
        };
        return ("blind", words);
    }
    if let Some(error) = &log.error {
        return ("blind", format!("It cannot be read: {error}"));
    }
    if log.unread() {
        return ("unknown", "It has not been read yet.".to_owned());
    }
    let Some(written) = log.last_write.filter(|_| log.up) else {
        return ("blind", "It is not there.".to_owned());
    };
    let age = (now - written).max(0.0);
    let moves = age <= run.job.limits().work_window;
    let mut words = format!("Last written {} ago.", Seconds(age));
    if let Some(why) = &log.polled {
        words += &format!(" Looked at every second: {why}.");
    }
    (if moves { "moves" } else { "still" }, words)
}

fn processes(run: &Run, facts: &Facts, state: &State, now: Unix) -> (&'static str, String) {
    if let Some(hangs) = hangs(state, "process", now) {
        return ("blind", hangs);
    }
    let Some(witnessed) = &run.processes else {
        let says = run.hidden.map_or("unknown", |_| "blind");
        return (says, format!("{}.", sentence(unseen(run))));
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
        (None, _) => ("unknown", "Not watched for long enough yet.".to_owned()),
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
        return match error.starts_with(NONE) {
            true => ("rests", format!("{}.", sentence(NONE))),
            false => ("blind", format!("They cannot be read: {error}")),
        };
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
            "Which are its own is not known, since none of its processes is seen."
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
pub(super) fn hangs(state: &State, source: &str, now: Unix) -> Option<String> {
    let source = state.sources.get(source).filter(|source| source.success)?;
    let last = source.last_success?;
    (now - last > STALE).then(|| {
        format!(
            "Not looked at for {}: what is known of them is old.",
            Seconds(now - last)
        )
    })
}
