//! The threads that look at GPUs and at processes, each at its own pace.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::{InForce, Pace, Wake, now, wait};
use crate::node::gpu::Gpus;
use crate::node::process::{Processes, Watcher};
use crate::state::{SILENT, Shared};

/// Looks at the GPUs until the program ends.
pub(super) fn gpus(gpus: &mut dyn Gpus, pace: Pace, shared: &Shared, wakes: &Receiver<Wake>) {
    loop {
        let began = now();
        let read = gpus.read().map_err(|e| format!("{e:#}"));
        let blocked = gpus.blocked_seconds();
        let at = now();
        let mut state = shared.lock();
        state.nvml_blocked = blocked;
        state.see_gpus(read, gpus.read_at().unwrap_or(at), at - began, at);
        drop(state);
        if !wait(wakes, pace.gpus) {
            return;
        }
    }
}

/// How many looks make a window: at the usual 60 s, one each 5 s.
const LOOKS: f64 = 12.0;
/// Looks at the processes of each run until the program ends.
pub(super) fn processes(
    source: &mut dyn Processes,
    config: &InForce,
    pace: Pace,
    shared: &Shared,
    wakes: &Receiver<Wake>,
) {
    let mut known: HashMap<String, Watcher> = HashMap::new();
    loop {
        let window = config.get().limits.work_window;
        let began = now();
        let mut state = shared.lock();
        let logs: Vec<(String, PathBuf)> = state
            .runs
            .values()
            // A search for who writes a log asks its file system.
            .filter(|run| run.log.silent_for(began) <= SILENT)
            .map(|run| (run.name.clone(), PathBuf::from(&run.info.log_path)))
            .collect();
        let gpus = state.gpus.data.as_deref().unwrap_or_default();
        let holders: Vec<u32> = gpus
            .iter()
            .flat_map(|gpu| gpu.pids.iter().flatten().copied())
            .collect();
        for run in state.runs.values_mut() {
            if run.log.silent_for(began) > SILENT {
                run.processes = None;
            }
        }
        drop(state);
        source.gpu_pids(&holders);
        known.retain(|name, _| logs.iter().any(|(run, _)| run == name));
        let mut failed = None;
        for (name, log) in logs {
            let read = source.read(&log);
            let watcher = known
                .entry(name.clone())
                .or_insert_with(|| Watcher::new(window, pace.speed));
            watcher.covers(window);
            let seen = read.map_err(|e| failed = Some(format!("{e:#}"))).ok();
            shared.lock().look(&name, seen, watcher, now());
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{SyncSender, sync_channel};

    use super::*;
    use crate::node::gpu::{Gpu, GpuState};

    /// A GPU at rest, read each second; one reading is given twice, then one is missed.
    struct AtRest {
        seconds: &'static [f64],
        looks: usize,
        shared: Shared,
        states: Vec<GpuState>,
        stop: SyncSender<Wake>,
    }

    impl Gpus for AtRest {
        fn read(&mut self) -> anyhow::Result<Vec<Gpu>> {
            let state = self.shared.lock();
            self.states
                .extend(state.gpus.data.iter().flatten().map(|gpu| gpu.state));
            self.looks += 1;
            if self.looks == self.seconds.len() {
                self.stop.try_send(Wake::Stop)?;
            }
            Ok(vec![Gpu {
                up: true,
                util: Some(0.0),
                energy_joules: self.read_at().map(|second| 80.0 * second),
                power_limit_watts: Some(700.0),
                ..Gpu::default()
            }])
        }

        fn read_at(&self) -> Option<f64> {
            self.seconds.get(self.looks - 1).copied()
        }
    }

    #[test]
    fn power_is_told_by_when_the_driver_was_asked_not_by_when_its_answer_was_seen() {
        let shared = Shared::default();
        let (stop, wakes) = sync_channel(1);
        let mut gpu = AtRest {
            seconds: &[0.0, 1.0, 2.0, 2.0, 4.0, 4.0, 5.0, 7.0],
            looks: 0,
            shared: shared.clone(),
            states: Vec::new(),
            stop,
        };
        gpus(&mut gpu, Pace::faster(50.0), &shared, &wakes);
        assert_eq!(gpu.states[0], GpuState::Unknown, "one reading is no rate");
        assert_eq!(gpu.states[1..], [GpuState::Idle; 6]);
    }
}
