//! The own eyes of `diagnose`: the exporter's source threads, for as long as it looks. Alone they follow the logs, look
//! at the processes and the GPUs, and their state gives the verdict. Beside an exporter they look at the processes only.
//!
//! Nothing here touches a file: it reads the state, whose lock nobody holds while waiting.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::ask::{Answer, RunSaid, is_named};
use super::{Args, FIRST, TICK, clock};
use crate::config::Config;
use crate::node::process::Witnessed;
use crate::run::{self, Pace, Sources, Threads};
use crate::state::{Run, SILENT, Shared, State};
use crate::web::view::View;

/// The window ends with the wait: the newest of twelve looks comes up to a twelfth of it before.
const PART: f64 = 11.0 / 12.0;
/// So many looks make a window, and no longer one than this is looked over.
const LOOKS: u32 = 12;
const WINDOW: Duration = Duration::from_secs(60);

/// The threads, and what they have seen.
pub(super) struct Watch {
    shared: Shared,
    /// They end with the program.
    _threads: Threads,
}

impl Watch {
    /// Looks at everything, as an exporter would.
    pub(super) fn alone(config: Config, args: &Args) -> Result<Self> {
        let watch = Self::start(Shared::default(), config, args.node.sources()?, args)?;
        watch.wait(FIRST, |state| {
            let read = state.runs.values().all(|run| run.log.lag == 0);
            state.exporter.ready && read && state.sources.contains_key("nvml")
        });
        // Only a look that began when the runs were known is one at their processes.
        let known = run::now();
        let pause = args.wait.min(WINDOW) / LOOKS;
        watch.wait(FIRST + pause, |state| {
            state.sources.get("process").is_some_and(|source| {
                let began = source.last_success.map(|ended| ended - source.duration);
                source.error.is_some() || began.is_some_and(|began| began >= known)
            })
        });
        Ok(watch)
    }

    /// Looks at the processes of these runs.
    pub(super) fn beside(runs: &[RunSaid], args: &Args) -> Result<Self> {
        let config = Config::default();
        let shared = Shared::default();
        for said in runs {
            let mut run = Run::new(&said.run, config.limits.clone());
            run.info.log_path.clone_from(&said.log.path);
            shared.lock().runs.insert(said.run.clone(), run);
        }
        let sources = Sources {
            gpus: None,
            ..args.node.sources()?
        };
        let watch = Self::start(shared, config, sources, args)?;
        watch.wait(FIRST, |state| state.sources.contains_key("process"));
        Ok(watch)
    }

    fn start(shared: Shared, mut config: Config, sources: Sources, args: &Args) -> Result<Self> {
        let window = &mut config.limits.work_window;
        *window = window.min(PART * args.wait.as_secs_f64());
        let threads = run::start(Arc::new(config), sources, Pace::default(), &shared)?;
        Ok(Self {
            shared,
            _threads: threads,
        })
    }

    /// Waits for the first look, but not for one that hangs.
    fn wait(&self, patience: Duration, seen: impl Fn(&State) -> bool) {
        let limit = clock() + patience;
        while clock() < limit && !seen(&self.shared.lock()) {
            thread::sleep(TICK);
        }
    }

    /// The logs have been looked at.
    pub(super) fn answers(&self) -> bool {
        let state = self.shared.lock();
        state.exporter.ready && !state.runs.values().any(silent)
    }

    /// The runs of this name, or all, whose logs answer.
    pub(super) fn names(&self, name: Option<&str>) -> Vec<String> {
        let state = self.shared.lock();
        let runs = state.runs.values().filter(|run| !silent(run));
        runs.map(|run| run.name.clone())
            .filter(|run| name.is_none_or(|name| is_named(run, name)))
            .collect()
    }

    /// What an exporter of this state would answer.
    pub(super) fn answer(&self) -> Result<Answer> {
        let now = run::now();
        let mut state = self.shared.lock();
        state.check_stall(now);
        let view = View::of(&state, now);
        Ok(serde_json::from_value(serde_json::to_value(view)?)?)
    }

    /// What is known of the run's processes; an error if they may not be seen.
    pub(super) fn processes(&self, run: &str) -> Result<Option<Witnessed>, String> {
        let state = self.shared.lock();
        match state.sources.get("process") {
            None => Err("the processes have not been looked at yet".to_owned()),
            Some(source) => match (
                &state.runs.get(run).and_then(|run| run.processes.clone()),
                &source.error,
            ) {
                (None, Some(why)) => Err(why.clone()),
                (seen, _) => Ok(seen.clone()),
            },
        }
    }

    /// Somebody of the run lived, wrote or opened something while it was looked at.
    pub(super) fn is_alive(&self, run: &str) -> bool {
        let state = self.shared.lock();
        state.runs.get(run).is_some_and(|run| run.alive)
    }

    /// A whole window of the run's processes was judged, or there is none to judge.
    pub(super) fn has_judged(&self, run: &str) -> bool {
        let seen = self.processes(run).ok().flatten();
        seen.is_none_or(|seen| seen.evidence.is_some() || seen.seen.pids.is_empty())
    }

    /// Bytes of the log that are not read yet.
    pub(super) fn lag(&self, run: &str) -> u64 {
        let state = self.shared.lock();
        state.runs.get(run).map_or(0, |run| run.log.lag)
    }
}

/// The file system of its log does not answer.
fn silent(run: &Run) -> bool {
    run.log.silent_for(run::now()) > SILENT
}
