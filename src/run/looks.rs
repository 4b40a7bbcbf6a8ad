//! The threads that look at GPUs and at processes, each at its own pace.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::{Pace, Wake, now, wait};
use crate::node::gpu::Gpus;
use crate::node::process::{Processes, Seen, Window, Witnessed};
use crate::state::{Shared, State};

/// Looks at the GPUs until the program ends.
pub(super) fn gpus(gpus: &mut dyn Gpus, pace: Pace, shared: &Shared, wakes: &Receiver<Wake>) {
    loop {
        let began = now();
        let read = gpus.read().map_err(|e| format!("{e:#}"));
        let blocked = gpus.blocked_seconds();
        let at = now();
        let mut state = shared.lock();
        state.nvml_blocked = blocked;
        state.record_source(
            "nvml",
            read.as_ref().map(|_| ()).map_err(Clone::clone),
            at - began,
            at,
        );
        state.record_gpus(read, at);
        drop(state);
        if !wait(wakes, pace.gpus) {
            return;
        }
    }
}

/// How many looks make a window: at the usual 60 s, one each 5 s.
const LOOKS: f64 = 12.0;
/// How many looks in a row must find nobody before the processes of a run are gone.
const GONE: u32 = 2;

/// What is remembered of one run between two looks.
struct Known {
    window: Window,
    /// Looks in a row that found nobody, after somebody was there.
    empty: Option<u32>,
}

/// Looks at the processes of each run until the program ends.
pub(super) fn processes(
    source: &mut dyn Processes,
    window: f64,
    pace: Pace,
    shared: &Shared,
    wakes: &Receiver<Wake>,
) {
    let mut known: HashMap<String, Known> = HashMap::new();
    loop {
        let began = now();
        let state = shared.lock();
        let logs: Vec<(String, PathBuf)> = state
            .runs
            .values()
            .map(|run| (run.name.clone(), PathBuf::from(&run.info.log_path)))
            .collect();
        let gpus = state.gpus.data.as_deref().unwrap_or_default();
        let holders: Vec<u32> = gpus
            .iter()
            .flat_map(|gpu| gpu.pids.iter().flatten().copied())
            .collect();
        drop(state);
        source.gpu_pids(&holders);
        known.retain(|name, _| logs.iter().any(|(run, _)| run == name));
        let mut failed = None;
        for (name, log) in logs {
            let read = source.read(&log);
            let run = known.entry(name.clone()).or_insert_with(|| Known {
                window: Window::new(window, pace.speed),
                empty: None,
            });
            match read {
                Ok(seen) => record(&mut shared.lock(), &name, run, seen),
                Err(e) => {
                    failed = Some(format!("{e:#}"));
                    if let Some(run) = shared.lock().runs.get_mut(&name) {
                        run.processes = None;
                    }
                }
            }
        }
        let at = now();
        shared
            .lock()
            .record_source("process", failed.map_or(Ok(()), Err), at - began, at);
        if !wait(wakes, Duration::from_secs_f64(window / LOOKS)) {
            return;
        }
    }
}

/// Takes in one look at the processes of a run. Nobody there tells something only if somebody was there before.
fn record(state: &mut State, name: &str, known: &mut Known, seen: Seen) {
    let Some(run) = state.runs.get_mut(name) else {
        return;
    };
    let at = now();
    if seen.counters.processes == 0 {
        let Some(empty) = &mut known.empty else {
            return;
        };
        *empty += 1;
        if *empty >= GONE {
            run.job.exited(at);
            run.processes = Some(Witnessed {
                seen,
                evidence: None,
            });
        }
        return;
    }
    known.empty = Some(0);
    let evidence = known.window.look(at, seen.counters);
    let witnessed = Witnessed { seen, evidence };
    // Whose silence cannot convict sets no clock: from it, silence would follow.
    if let Some(worked) = known.window.worked_at().filter(|_| witnessed.may_convict()) {
        run.job.worked(worked);
    }
    run.processes = Some(witnessed);
}
