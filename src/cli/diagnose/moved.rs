//! What moved between two looks, number by number. Pure.

use super::ask::{Gpu, RunSaid};
use super::looks::Sight;
use super::report::{Process, Witness};
use crate::node::process::Counters;
use crate::node::procfs::standing::Standing;

/// Each witness before and after.
pub(super) fn witnesses(before: &Sight, after: &Sight, last: &RunSaid) -> Vec<Witness> {
    let said = |of: &dyn Fn(&RunSaid) -> Option<f64>| {
        [before, after].map(|sight| sight.said.as_ref().and_then(of))
    };
    let seen = |of: &dyn Fn(&Counters) -> Option<f64>| {
        [before, after].map(|sight| sight.counters().and_then(of))
    };
    let of_gpus = |of: &dyn Fn(&Gpu) -> Option<f64>, mean: bool| {
        said(&|run| {
            let all: Option<Vec<f64>> = run.gpus.iter().map(of).collect();
            let all = all.filter(|all| !all.is_empty())?;
            let sum: f64 = all.iter().sum();
            Some(if mean { sum / all.len() as f64 } else { sum })
        })
    };
    let unit = last
        .validation
        .as_ref()
        .map(|validation| validation.source.as_str());
    let unit = if unit == Some("files") {
        "files"
    } else {
        "batches"
    };
    let rows = [
        (
            "log_bytes",
            said(&|run| run.log.last_write_age.map(|_| run.log.bytes as f64)),
            "bytes",
        ),
        (
            "steps",
            said(&|run| run.step.map(|step| step as f64)),
            "steps",
        ),
        (
            "validation",
            said(&|run| {
                run.validation
                    .as_ref()
                    .map(|validation| validation.done as f64)
            }),
            unit,
        ),
        ("reads", seen(&|counters| counters.read_bytes), "bytes"),
        ("writes", seen(&|counters| counters.written_bytes), "bytes"),
        (
            "page_faults",
            seen(&|counters| Some(counters.page_faults)),
            "faults",
        ),
        (
            "cpu",
            seen(&|counters| Some(counters.main_cpu_seconds)),
            "seconds",
        ),
        ("gpu_busy", of_gpus(&|gpu| gpu.util, true), "ratio"),
        ("gpu_power", of_gpus(&|gpu| gpu.power_watts, false), "watts"),
    ];
    let working = last.gpus.iter().any(|gpu| gpu.state == "working");
    rows.into_iter()
        .map(|(witness, [before, after], unit)| Witness {
            witness,
            moved: match (before, after) {
                // A level, not a count: what moves is a GPU that works.
                (_, Some(_)) if witness.starts_with("gpu") => Some(working),
                (Some(before), Some(after)) => Some(after > before),
                (None, Some(_)) if ["steps", "validation"].contains(&witness) => Some(true),
                (_, None) | (None, Some(_)) => None,
            },
            before,
            after,
            unit: unit.to_owned(),
        })
        .collect()
}

/// Where each process stands, and what its main thread did.
pub(super) fn processes(before: &Sight, after: &Sight) -> Vec<Process> {
    let of = |now: &Standing| {
        let then = before.same(now);
        let rise = |of: &dyn Fn(&Standing) -> Option<f64>| {
            then.and_then(of)
                .zip(of(now))
                .map(|(before, after)| after - before)
        };
        Process {
            pid: now.pid,
            name: now.name.clone(),
            rank: now.rank,
            worker: now.worker,
            state: now.state,
            waits_in: now.waits_in.clone(),
            writes_to: now.writes_to.clone(),
            cpu_seconds: rise(&|one| Some(one.cpu_seconds)),
            page_faults: rise(&|one| Some(one.page_faults)),
            read_bytes: rise(&|one| one.read_bytes),
            written_bytes: rise(&|one| one.written_bytes),
        }
    };
    after.standing.iter().map(of).collect()
}
