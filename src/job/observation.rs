//! Everything that a log line can say, as a closed set: presets emit exactly these, and `Job::apply` matches them
//! without a catch-all, so a new variant leads the compiler to every place that must know it.
//!
//! Numbers are as people count: epochs and steps are 1-based here, whatever the framework prints.

use std::fmt;

use super::Phase;

/// One thing that a log line states.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// A new process has begun to write: what was open in the log belongs to an earlier attempt.
    Start,
    /// The run is in this phase now.
    Phase(Phase),
    /// The epoch under way (1-based), and how many are planned where the line tells.
    Epoch {
        /// The epoch under way, 1-based.
        epoch: u64,
        /// Planned epochs.
        of: Option<u64>,
    },
    /// The same by a log of which it is not known whether it counts from 0: it does once it says 0.
    CountedEpoch {
        /// The epoch as it is printed.
        epoch: u64,
        /// Planned epochs.
        of: Option<u64>,
    },
    /// Optimiser steps done, and how many are planned where the line tells.
    Step {
        /// Steps done over the whole run.
        step: u64,
        /// Planned steps.
        of: Option<u64>,
    },
    /// A fresh run has begun: it is in its first epoch, as long as nothing tells how long an epoch is.
    FirstEpoch,
    /// So much is planned; both together tell how long an epoch is.
    Planned {
        /// Epochs.
        epochs: Option<u64>,
        /// Steps over the whole run.
        steps: Option<u64>,
    },
    /// So many epochs are done, with a fraction; where the line tells the step, it tells how long an epoch is.
    EpochsDone {
        /// Epochs done.
        done: f64,
        /// The step at which they were.
        step: Option<u64>,
    },
    /// The same from a line of the training: where no bar tells, it shows that training goes on.
    EpochsTrained {
        /// Epochs done.
        done: f64,
        /// The step at which they were.
        step: Option<u64>,
    },
    /// Steps done over the whole run: a new number shows that training goes on, an old one is a redraw.
    Train(Progress),
    /// The same for a bar that begins anew with each epoch.
    TrainBar(Progress),
    /// The same where the epoch's validation has a bar of the same text: the second one of an epoch.
    EpochBar(Progress),
    /// How far a validation pass is; it begins here if none is under way.
    Validate(Progress),
    /// How far the validation pass is, which something else has begun.
    Validation(Progress),
    /// How far the pass under way is, where the text is the same in training and in validation.
    Bar(Progress),
    /// The validation pass is complete; what follows until the next edge is metrics and bookkeeping.
    ValidationEnd,
    /// The result of the oldest pass that has none yet. Results may come a pass late, from a buffer.
    Result {
        /// Epochs done when that pass began, with a fraction, where the line tells.
        epochs_done: Option<f64>,
    },
    /// The checkpoint is written; the run goes back to what it was doing.
    CheckpointEnd,
    /// The epoch under way is complete with all that belongs to it: after the last planned one the run is finished.
    EpochEnd,
    /// Dynamo compiled a frame again.
    Recompile(Recompile),
    /// Dynamo gave up on a frame: `torch._dynamo hit config.recompile_limit`.
    RecompileLimit(Recompile),
    /// Something went wrong; alone it ends nothing, since much is caught and retried.
    Fault(Fault),
    /// The run was asked to stop and still has work to do, such as a last checkpoint.
    Stopping(Ended),
    /// An exception that nothing caught, as far as the log shows: the run is over, if so.
    Raised(Ended),
    /// The run is over, for this reason.
    End(Ended),
    /// Any other number of the log; the name stands in the preset.
    Value {
        /// Name, at most a small number of them for each run.
        name: String,
        /// The number; not finite when the log says `nan` or `inf`.
        value: f64,
    },
    /// After so many seconds a waiting collective is ended by the library.
    CollectiveTimeout {
        /// Seconds.
        seconds: f64,
    },
}

/// A part of a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// Units in all, where known.
    pub of: Option<u64>,
}

impl Progress {
    /// Done over all, between 0 and 1; absent without a total.
    pub fn ratio(self) -> Option<f64> {
        let of = self.of.filter(|&of| of > 0)?;
        Some((self.done as f64 / of as f64).min(1.0))
    }

    /// Everything is done: from here on nothing can be seen in this number.
    pub fn full(self) -> bool {
        self.of.is_some_and(|of| of > 0 && self.done >= of)
    }
}

/// Which compilation Dynamo speaks of. The attempt is the second number of its `[frame/attempt]` tag and starts at 0
/// with the first compilation, so the highest attempt of a frame is how often that frame was compiled again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recompile {
    /// Who says it: the rank where the line has one, else the process, else nothing.
    pub by: String,
    /// Frame id, as printed.
    pub frame: String,
    /// Compile attempt of this frame, from 0.
    pub attempt: u64,
}

/// What can go wrong in a log, as the `kind` of `training_faults_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// An uncaught Python exception's traceback.
    Exception,
    /// The GPU's memory was not enough.
    OutOfMemory,
    /// A collective ran into its timeout.
    CollectiveTimeout,
    /// The launcher saw a rank end with an error or a signal.
    RankFailed,
    /// A process was killed from outside, mostly for want of host memory.
    Killed,
    /// A data loader worker died.
    LoaderWorker,
}

impl Fault {
    /// All of them, in the order in which they are exported.
    pub const ALL: [Self; 6] = [
        Self::Exception,
        Self::OutOfMemory,
        Self::CollectiveTimeout,
        Self::RankFailed,
        Self::Killed,
        Self::LoaderWorker,
    ];

    /// The label value, and the word in a preset.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exception => "exception",
            Self::OutOfMemory => "out_of_memory",
            Self::CollectiveTimeout => "collective_timeout",
            Self::RankFailed => "rank_failed",
            Self::Killed => "killed",
            Self::LoaderWorker => "loader_worker",
        }
    }
}

/// Why a run is over, as the `reason` of `training_run_ended`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It did all that was planned.
    Finished,
    /// Somebody asked it to stop, and it did.
    Cancelled,
    /// The scheduler took the node away.
    Preempted,
    /// It ended with an error.
    Error,
    /// It ended for want of memory.
    OutOfMemory,
    /// A signal ended it.
    Killed,
    /// Its processes are gone and nobody said why.
    Vanished,
}

impl Ended {
    /// All of them, in the order in which they are documented.
    pub const ALL: [Self; 7] = [
        Self::Finished,
        Self::Cancelled,
        Self::Preempted,
        Self::Error,
        Self::OutOfMemory,
        Self::Killed,
        Self::Vanished,
    ];

    /// The label value, and the word in a preset.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Cancelled => "cancelled",
            Self::Preempted => "preempted",
            Self::Error => "error",
            Self::OutOfMemory => "out_of_memory",
            Self::Killed => "killed",
            Self::Vanished => "vanished",
        }
    }

    /// The phase that this end leads to: a run that did what it was asked to do has not failed.
    pub const fn phase(self) -> Phase {
        match self {
            Self::Finished | Self::Cancelled | Self::Preempted => Phase::Finished,
            Self::Error | Self::OutOfMemory | Self::Killed | Self::Vanished => Phase::Failed,
        }
    }
}

/// As presets' samples and `replay --format text` write it.
impl fmt::Display for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => write!(f, "start"),
            Self::Phase(phase) => write!(f, "phase {}", phase.name()),
            Self::Epoch { epoch, of } => write!(
                f,
                "epoch {}",
                Progress {
                    done: *epoch,
                    of: *of
                }
            ),
            Self::CountedEpoch { epoch, of } => write!(
                f,
                "counted_epoch {}",
                Progress {
                    done: *epoch,
                    of: *of
                }
            ),
            Self::Step { step, of } => write!(
                f,
                "step {}",
                Progress {
                    done: *step,
                    of: *of
                }
            ),
            Self::FirstEpoch => write!(f, "first_epoch"),
            Self::Planned { epochs, steps } => {
                let part = |n: &Option<u64>, of| n.map_or(String::new(), |n| format!(" {n} {of}"));
                write!(
                    f,
                    "planned{}{}",
                    part(epochs, "epochs"),
                    part(steps, "steps")
                )
            }
            Self::EpochsDone { done, .. } => write!(f, "epochs_done {done}"),
            Self::EpochsTrained { done, .. } => write!(f, "epochs_trained {done}"),
            Self::Train(progress) => write!(f, "train {progress}"),
            Self::TrainBar(progress) => write!(f, "train_bar {progress}"),
            Self::EpochBar(progress) => write!(f, "epoch_bar {progress}"),
            Self::Validate(progress) => write!(f, "validate {progress}"),
            Self::Validation(progress) => write!(f, "validation {progress}"),
            Self::Bar(progress) => write!(f, "bar {progress}"),
            Self::ValidationEnd => write!(f, "validation_end"),
            Self::Result { epochs_done: None } => write!(f, "result"),
            Self::Result {
                epochs_done: Some(done),
            } => write!(f, "result {done}"),
            Self::CheckpointEnd => write!(f, "checkpoint_end"),
            Self::EpochEnd => write!(f, "epoch_end"),
            Self::Recompile(what) => write!(f, "recompile {what}"),
            Self::RecompileLimit(what) => write!(f, "recompile_limit {what}"),
            Self::Fault(fault) => write!(f, "fault {}", fault.name()),
            Self::Stopping(reason) => write!(f, "stopping {}", reason.name()),
            Self::Raised(reason) => write!(f, "raised {}", reason.name()),
            Self::End(reason) => write!(f, "end {}", reason.name()),
            Self::Value { name, value } => write!(f, "value {name}={value}"),
            Self::CollectiveTimeout { seconds } => write!(f, "collective_timeout {seconds} s"),
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            Some(of) => write!(f, "{}/{of}", self.done),
            None => write!(f, "{}", self.done),
        }
    }
}

impl fmt::Display for Recompile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.frame, self.attempt)?;
        if self.by.is_empty() {
            Ok(())
        } else {
            write!(f, " by {}", self.by)
        }
    }
}
