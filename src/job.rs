//! What one run is doing: a fold over what its log says and what its processes, GPUs and data folder show.
//!
//! Pure: time is an argument, and nothing here can fail. Bytes that were folded before change nothing when they come
//! again in the same process (a redraw, a repeated line), since progress is only a number that reaches a new highest
//! value within its phase, or an edge between phases.

pub mod asked;
pub mod cadence;
pub mod clock;
pub mod metrics;
pub mod observation;
pub mod phase;
mod raised;
mod reach;
pub mod recompile;
pub mod verdict;

use std::collections::BTreeMap;

use crate::metric::Total;
use cadence::Limits;
use clock::{Clock, larger};
use observation::{Ended, Fault, Observation, Progress};
pub use phase::Phase;
use raised::Raised;
use reach::{Counted, Marks, rises};
use recompile::Recompiles;

/// Seconds since the epoch. All times in this crate are such numbers, handed in by the caller.
pub type Unix = f64;

/// Ticks come about once a second; a longer pause, in seconds, is one in which nobody looked.
const JUMP: f64 = 10.0;
/// The most values (`training_value`) that one run may have.
const VALUES: usize = 32;
/// The longest name of one, in bytes.
const NAME: usize = 128;
/// The distinct validation files opened in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    /// How many.
    pub opened: u64,
    /// The pass was seen from its beginning, so this tells how far it is. Else it only tells that it goes on.
    pub whole: bool,
}

/// What one run is doing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    limits: Limits,
    /// What it is doing.
    pub phase: Phase,
    /// Only the end of its log is read yet: what is counted from the beginning is not known.
    pub partial: bool,
    /// Since when; absent before the first word of the log.
    pub phase_since: Option<Unix>,
    /// The phase that a checkpoint interrupts, and goes back to.
    interrupted: Phase,
    phase_seconds: [f64; Phase::COUNT],
    /// When the newest tick was.
    ticked: Option<Unix>,
    /// Up to when the seconds of the phase are counted.
    counted: Option<Unix>,
    /// Something could not be seen since the newest progress: the gap that ends next teaches nothing.
    blind: bool,
    /// How long the longest one of each phase took, in seconds.
    longest: [Option<f64>; Phase::COUNT],
    /// When the log first said something.
    pub started: Option<Unix>,
    /// Why and when it was over; absent while it lives.
    pub ended: Option<(Ended, Unix)>,
    /// It was asked to stop and has not ended yet.
    pub stopping: Option<Ended>,
    /// The epoch under way, 1-based.
    pub epoch: Option<u64>,
    /// Planned epochs.
    pub epochs: Option<u64>,
    epoch_since: Option<Unix>,
    /// Optimiser steps done, and how many are planned.
    pub step: Option<Progress>,
    /// The epoch in which the step last moved.
    step_epoch: Option<u64>,
    /// A phase edge or two different step numbers were seen: the run can be judged.
    pub enrolled: bool,
    marks: Marks,
    counted_on: Counted,
    /// What the log says of the running validation pass.
    pub validation: Option<Progress>,
    /// Distinct validation files opened in this pass; absent where no folder is watched.
    pub files: Option<Files>,
    /// Validation files of a whole pass, as configured.
    pub files_planned: Option<u64>,
    /// Distinct validation files of the pass before.
    files_before: Option<u64>,
    validation_complete: bool,
    passes: u64,
    progress: Clock,
    work: Clock,
    /// Complete checkpoints.
    checkpoint: Clock,
    last_gpu_work: Option<Unix>,
    worked: [bool; Phase::COUNT],
    recompiles: Recompiles,
    faults: BTreeMap<Fault, u64>,
    /// An exception of which nothing shows yet that it was caught.
    raised: Option<Raised>,
    /// Its processes are seen to live.
    attended: bool,
    /// The newest fault that no progress has followed.
    last_fault: Option<Fault>,
    nonfinite: u64,
    values: BTreeMap<String, f64>,
    collective_timeout: Option<f64>,
    validations: Total,
    checkpoints: Total,
    epochs_done: Total,
}

impl Job {
    /// A run of which nothing is known yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Another run of which nothing is known yet, with what was configured for this one.
    pub fn afresh(&self) -> Self {
        let mut job = Self::default();
        job.configure(self.limits.clone(), self.files_planned);
        job
    }

    /// From here on it is judged by these limits, and a whole validation opens so many files, where that is known.
    pub fn configure(&mut self, limits: Limits, files_planned: Option<u64>) {
        (self.limits, self.files_planned) = (limits, files_planned);
    }

    /// Takes in one thing that the log said; its bytes were in the file at `at`.
    pub fn apply(&mut self, said: Observation, at: Unix) {
        self.started.get_or_insert(at);
        match said {
            Observation::Start => self.start(at),
            Observation::Phase(phase) => {
                if !phase.live() || self.lives_on(reach::TRAINED) {
                    self.enter(phase, at);
                }
            }
            Observation::Epoch { epoch, of } => self.reach_epoch(epoch, of, at),
            Observation::CountedEpoch { epoch, of } => self.counted_epoch(epoch, of, at),
            Observation::Step { step, of } => {
                self.reach_step(step, of, at);
            }
            Observation::FirstEpoch => self.first_epoch(at),
            Observation::Planned { epochs, steps } => self.planned(epochs, steps, at),
            Observation::EpochsDone { done, step } => self.epochs_done(done, step, at),
            Observation::EpochsTrained { done, step } => self.epochs_trained(done, step, at),
            Observation::Train(Progress { done, of }) => self.train(done, of, at),
            Observation::TrainBar(progress) => self.train_bar(progress, at),
            Observation::EpochBar(progress) => self.epoch_bar(progress, at),
            Observation::Validate(progress) => self.validate(progress, at),
            Observation::Validation(progress) => self.reach_validation(progress, at),
            Observation::Bar(progress) => match self.phase {
                Phase::Validation => self.reach_validation(progress, at),
                Phase::Train => {
                    if rises(&mut self.marks.bar, progress.done) {
                        self.progressed(at);
                    }
                }
                Phase::Init
                | Phase::Checkpoint
                | Phase::Finished
                | Phase::Failed
                | Phase::Unknown => {}
            },
            Observation::ValidationEnd => self.complete_validation(at),
            Observation::Result { epochs_done } => {
                self.result(epochs_done, at);
                // An evaluation of the trained model.
                let last = self
                    .stopping
                    .or((self.interrupted == Phase::Finished).then_some(Ended::Finished));
                if self.validation_complete
                    && let Some(reason) = last
                {
                    self.end(reason, at);
                }
            }
            Observation::CheckpointEnd => {
                if self.phase == Phase::Checkpoint {
                    match self.stopping {
                        Some(reason) => self.end(reason, at),
                        None if self.interrupted == Phase::Finished => {
                            self.end(Ended::Finished, at)
                        }
                        None => self.enter(self.interrupted, at),
                    }
                } else {
                    self.checkpoint.mark(at, Phase::Checkpoint, |_| true);
                }
            }
            Observation::EpochEnd => {
                if self.epoch.is_some() && self.epoch == self.epochs {
                    self.end(Ended::Finished, at);
                }
            }
            Observation::Recompile(what) => self.recompiles.again(what),
            Observation::RecompileLimit(what) => self.recompiles.limit(what),
            Observation::Fault(fault) => {
                *self.faults.entry(fault).or_default() += 1;
                // The launcher tells that a rank failed, and with what exit code, but not why.
                if fault != Fault::RankFailed {
                    self.last_fault = Some(fault);
                }
            }
            Observation::Stopping(reason) => self.stopping = Some(reason),
            Observation::Raised(reason) => self.raise(reason, at),
            Observation::End(reason) => {
                self.raised = None;
                self.end(self.stopping.unwrap_or(reason), at);
            }
            Observation::Value { name, value } => self.note(name, value),
            Observation::CollectiveTimeout { seconds } => self.collective_timeout = Some(seconds),
        }
    }

    /// What the data folder shows of the running validation pass; nothing if it cannot be told whose files were opened.
    pub fn opened_files(&mut self, files: Option<Files>, at: Unix) {
        if self.phase != Phase::Validation || self.validation_complete {
            return;
        }
        self.files = files;
        let opened = files.map_or(0, |files| files.opened);
        if opened > 0 && rises(&mut self.marks.files, opened) {
            self.progressed(at);
            self.worked(at);
        }
    }

    /// A process of the run did work.
    pub fn worked(&mut self, at: Unix) {
        if !self.phase.over() {
            self.worked[self.phase as usize] = true;
            let phase = self.phase;
            self.work.mark(at, phase, |_| true);
        }
    }

    /// A GPU of the run did work.
    pub fn gpu_worked(&mut self, at: Unix) {
        if !self.phase.over() {
            self.last_gpu_work = larger(self.last_gpu_work, Some(at));
        }
    }

    /// The processes of the run are gone. Whoever has done all steps that were planned needs no word for it.
    pub fn exited(&mut self, at: Unix) {
        self.attended = false;
        if self.ended.is_none() && (self.phase.live() || self.last_fault.is_some()) {
            let done = self.phase == Phase::Train && self.step.is_some_and(Progress::full);
            let reason = match (self.raised, self.last_fault) {
                (Some(raised), _) => raised.reason,
                (None, Some(_)) => Ended::Error,
                (None, None) if done => Ended::Finished,
                (None, None) => Ended::Vanished,
            };
            self.end(self.stopping.unwrap_or(reason), at);
        }
    }

    /// Time went by. While `suspended`, nothing could move, and the clocks stand. So they do over a jump: nobody looked
    /// (the machine was suspended, the exporter stopped), or the clock was set; then this tells so.
    pub fn tick(&mut self, now: Unix, suspended: bool) -> bool {
        self.count(now);
        let passed = self.ticked.replace(now).map_or(0.0, |since| now - since);
        let jumped = !(0.0..=JUMP).contains(&passed);
        if suspended || jumped {
            self.progress.halt(passed);
            self.work.halt(passed);
            self.checkpoint.halt(passed);
            self.last_gpu_work = self.last_gpu_work.map(|last| last + passed);
        }
        self.fall_if_late(now);
        jumped
    }

    /// The log could not be read for a while.
    pub fn blinded(&mut self) {
        self.blind = true;
    }

    /// Counts the seconds of the phase up to `now`.
    fn count(&mut self, now: Unix) {
        let passed = self
            .counted
            .filter(|_| self.ticked.is_some())
            .map_or(0.0, |since| now - since);
        if (0.0..=JUMP).contains(&passed) {
            self.phase_seconds[self.phase as usize] += passed;
        }
        self.counted = Some(now);
    }

    /// A new process writes: nothing of the old one is inherited but what was configured.
    fn start(&mut self, at: Unix) {
        *self = Self {
            started: Some(at),
            ..self.afresh()
        };
        self.progressed(at);
    }

    /// A name may be of the log's own making: one that is no name is not kept.
    fn note(&mut self, name: String, value: f64) {
        if name.len() > NAME {
            return;
        }
        if !value.is_finite() {
            self.nonfinite += u64::from(name.ends_with("loss"));
            self.values.remove(&name);
        } else if self.values.len() < VALUES || self.values.contains_key(&name) {
            self.values.insert(name, value);
        }
    }

    /// A number or a phase moved. The silence before it was healthy if it stayed under its ceiling, or if somebody
    /// was at work until the end of it.
    fn progressed(&mut self, at: Unix) {
        self.last_fault = None;
        let seen = !std::mem::take(&mut self.blind);
        let ceiling = self.progress_ceiling();
        let last_work = larger(self.work.last(), self.last_gpu_work);
        let at_work = last_work
            .zip(self.quiet_ceiling())
            .is_some_and(|(last, quiet)| at - last <= quiet);
        self.progress.mark(at, self.phase, |gap| {
            seen && (at_work || ceiling.is_some_and(|ceiling| gap <= ceiling))
        });
    }
}

#[cfg(test)]
mod tests;
