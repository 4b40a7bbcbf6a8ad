//! What the sources bring, taken into a run in the one order that there is: the source threads call this, and so does a
//! simulated node.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{Reading, Run, State};
use crate::job::{Phase, Unix};
use crate::log::blocks::Blocks;
use crate::log::listener::Heard;
use crate::node::gpu::{Gpu, GpuState};
use crate::node::process::{Found, Seen, Watcher};

/// A log without any sign of life is given so long for its processes to be found, in seconds.
const GRACE: f64 = 60.0;

impl Run {
    /// Its log said this, in bytes that came at `at`; `news` did not stand there before anybody looked.
    pub fn heard(&mut self, heard: Heard, framework: Option<&str>, at: Unix, news: bool) {
        for said in heard.said {
            if news {
                self.log.blocks.told(&said);
            }
            self.job.apply(said, at);
        }
        if let Some(framework) = framework {
            framework.clone_into(&mut self.info.framework);
        }
        if news && heard.bytes > 0 {
            self.log.blocks.grew(heard.bytes, at);
            self.alive = true;
        }
        self.log.bytes += heard.bytes;
        self.log.lines += heard.lines;
        self.log.matched += heard.matched;
        self.log.rotations += heard.rotations;
    }

    /// Its log could not be read: what it gains meanwhile was kept back by nobody.
    pub fn blinded(&mut self) {
        self.job.blinded();
        self.log.blocks = Blocks::default();
    }

    /// It has been over, or without any sign of life, for longer than it is remembered. Its log was last written at
    /// `written`, and taken up at `since`: that soon its processes need not be found yet.
    pub fn past(&self, written: Option<Unix>, since: Option<Unix>, now: Unix) -> bool {
        let young = since.is_some_and(|since| now - since < GRACE);
        let lives = self.lives() || self.alive && self.job.phase.live();
        let old = written.is_some_and(|at| now - at > self.job.limits().retention);
        old && !lives && !young
    }
}

impl State {
    /// These files were opened in a folder on which these runs validate, all of which could be seen from `since` on.
    pub fn record_opened<'a>(
        &mut self,
        runs: &BTreeSet<&str>,
        files: impl Iterator<Item = (&'a PathBuf, &'a Unix)> + Clone,
        since: Unix,
        now: Unix,
    ) {
        let validates = |name: &&&str| {
            let run = self.runs.get(**name);
            run.is_some_and(|run| run.job.phase == Phase::Validation)
        };
        // Two runs that validate on one folder cannot be told apart: nothing is said of either.
        let alone = runs.iter().filter(validates).count() == 1;
        for name in runs {
            let Some(run) = self.runs.get_mut(*name) else {
                continue;
            };
            let opened = &mut run.opened;
            if run.job.phase != Phase::Validation {
                opened.outside(files.clone(), now);
                continue;
            }
            opened.inside(files.clone(), run.job.phase_since, run.log.last_write);
            opened.seen_since(if alone { since } else { now });
            run.job.opened_files(alone.then(|| opened.files()), now);
            run.alive |= alone && opened.files().opened > 0;
            run.files_opened = alone.then_some(opened.total());
            run.shares_data = !alone;
        }
    }

    /// A look at the processes of a run; without it that witness is absent.
    pub fn look(&mut self, run: &str, seen: Option<Seen>, watcher: &mut Watcher, now: Unix) {
        if let Some(run) = self.runs.get_mut(run) {
            run.hidden = Some(seen.is_none());
        }
        match seen {
            Some(seen) => self.record_processes(run, watcher.look(now, seen), now),
            None => {
                if let Some(run) = self.runs.get_mut(run) {
                    run.processes = None;
                }
            }
        }
    }

    /// A reading of the GPUs that was made at `read_at` and took so many seconds, until `now`.
    pub fn see_gpus(
        &mut self,
        read: Result<Vec<Gpu>, String>,
        read_at: Unix,
        took: f64,
        now: Unix,
    ) {
        let result = read.as_ref().map(|_| ()).map_err(Clone::clone);
        self.record_source("nvml", result, took, now);
        self.record_gpus(read, read_at);
    }

    /// Takes in a reading of the GPUs: which run holds which, and what state each is in.
    pub fn record_gpus(&mut self, read: Result<Vec<Gpu>, String>, now: Unix) {
        let mut gpus = match read {
            Ok(gpus) => gpus,
            Err(error) => {
                self.gpus = Reading {
                    data: None,
                    error: Some(error),
                };
                return;
            }
        };
        for gpu in &mut gpus {
            let holders: Vec<&str> = self
                .runs
                .values()
                .filter(|run| run.holds(gpu))
                .map(|run| run.name.as_str())
                .collect();
            // What two runs share tells of neither.
            let alone = (holders.len() == 1).then(|| holders[0].to_owned());
            let advancing = alone
                .as_ref()
                .is_some_and(|name| self.runs[name].advancing(now));
            gpu.state = self.baselines.state(gpu, advancing, now);
            if holders.len() > 1 {
                gpu.state = GpuState::Unknown;
            }
            if let Some(run) = alone.and_then(|name| self.runs.get_mut(&name))
                && gpu.state == GpuState::Working
            {
                run.job.gpu_worked(now);
            }
        }
        for run in self.runs.values_mut() {
            run.gpus = gpus
                .iter()
                .filter(|gpu| run.holds(gpu))
                .map(|gpu| (gpu.index, gpu.uuid.clone()))
                .collect();
            run.remember_gpus(&gpus, now);
        }
        self.gpus = Reading {
            data: Some(gpus),
            error: None,
        };
    }

    /// Takes in what a look at the processes of a run said.
    pub fn record_processes(&mut self, run: &str, found: Found, now: Unix) {
        let Some(run) = self.runs.get_mut(run) else {
            return;
        };
        match found {
            Found::Nobody | Found::Fewer => {}
            Found::Gone(witnessed) => {
                run.job.exited(now);
                run.processes = Some(witnessed);
            }
            Found::There(witnessed, worked) => {
                run.alive = true;
                run.job.attended(witnessed.ranks_gone().unwrap_or(0), now);
                // What a look just after an edge sees may be work of the phase before.
                let settled = run
                    .job
                    .phase_since
                    .is_none_or(|since| now - since > run.job.limits().work_window / 6.0);
                if worked && settled {
                    run.job.worked(now);
                }
                run.processes = Some(witnessed);
            }
        }
    }

    /// Takes in how a reading of a source went.
    pub fn record_source(
        &mut self,
        name: &'static str,
        result: Result<(), String>,
        duration: f64,
        now: Unix,
    ) {
        let source = self.sources.entry(name).or_default();
        source.success = result.is_ok();
        source.duration = duration;
        source.error = result.err();
        if source.success {
            source.last_success = Some(now);
        }
    }
}
