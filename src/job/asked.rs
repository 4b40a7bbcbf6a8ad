//! What can be asked of a run: how far it is, by which source, how long it may stand still.

use super::cadence::{Bound, Limits};
use super::observation::Progress;
use super::{Job, Phase, Unix};

/// Learned ceilings: this many times the second largest gap.
const PROGRESS_FACTOR: f64 = 5.0;
const QUIET_FACTOR: f64 = 3.0;
/// A checkpoint is overdue after so many times its usual gap.
const CHECKPOINT_FACTOR: f64 = 3.0;
/// Where nothing proves a hang, training may stand still for so many ceilings.
const ENDURANCE_FACTOR: f64 = 6.0;
/// An unseen validation has overrun after so many times the longest earlier pass.
const OVERRUN_FACTOR: f64 = 3.0;

/// Where the numbers of the running validation come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The log prints a bar or a count.
    Log,
    /// The log is silent; the data folder shows which files were opened.
    Files,
    /// Nothing shows it.
    Nothing,
}

impl Source {
    /// The label value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Files => "files",
            Self::Nothing => "none",
        }
    }
}

impl Job {
    /// Where the numbers of the running validation come from; absent outside a validation.
    pub fn source(&self) -> Option<Source> {
        (self.phase == Phase::Validation).then_some(match (self.validation, self.files) {
            _ if self.validation_complete => Source::Nothing,
            (Some(_), _) => Source::Log,
            (None, Some(_)) => Source::Files,
            (None, None) => Source::Nothing,
        })
    }

    /// How far the running validation is, from the best source; absent outside a validation.
    pub fn validation_progress(&self) -> Option<Progress> {
        if self.phase != Phase::Validation {
            return None;
        }
        let of = self.files_planned.or(self.files_before);
        let files = self
            .files
            .filter(|files| files.whole)
            .map(|files| Progress {
                done: of.map_or(files.opened, |of| files.opened.min(of)),
                of,
            });
        self.validation.or(files)
    }

    /// A validation whose numbers say nothing: no source, or all is done and the metrics are made.
    pub fn unseen(&self) -> bool {
        self.source() == Some(Source::Nothing)
            || self.validation_progress().is_some_and(Progress::full)
    }

    /// When a number or a phase last moved.
    pub fn last_progress(&self) -> Option<Unix> {
        self.progress.last()
    }

    /// When a process of the run last did work. Absent until such work was seen in this kind of phase (in the first
    /// validation: in this run), since a witness may convict only if it has acquitted.
    pub fn last_work(&self) -> Option<Unix> {
        let seen = self.worked[self.phase as usize]
            || (self.phase == Phase::Validation && self.passes == 0 && self.worked.contains(&true));
        self.work.last().filter(|_| seen)
    }

    /// When a GPU of the run last did work.
    pub fn last_gpu_work(&self) -> Option<Unix> {
        self.last_gpu_work
    }

    /// How long the numbers of this phase may stand still, in seconds; absent in a phase that is not live.
    pub fn progress_ceiling(&self) -> Option<f64> {
        if self.unseen() {
            return Some(
                self.longest_pass()
                    .map_or(self.limits.unseen_validation, |pass| {
                        (OVERRUN_FACTOR * pass).max(self.limits.validation.lower)
                    }),
            );
        }
        let bound = self.limits.progress(self.phase)?;
        Some(self.progress.ceiling(self.phase, bound, PROGRESS_FACTOR))
    }

    /// How long nobody of this run may do work, in seconds; absent in a phase that is not live.
    pub fn quiet_ceiling(&self) -> Option<f64> {
        (!self.phase.over()).then(|| {
            self.work
                .ceiling(self.phase, self.limits.quiet, QUIET_FACTOR)
        })
    }

    /// How long the run may stand still in this phase where nothing proves a hang, in seconds: six ceilings in training, an
    /// hour at least; elsewhere three times the longest earlier phase of its kind. Absent in a phase that is not live.
    pub fn endurance(&self) -> Option<f64> {
        let least = self.progress_ceiling().filter(|_| self.phase.live())?;
        if self.phase == Phase::Train {
            return Some((ENDURANCE_FACTOR * least).max(self.limits.patience));
        }
        let longest = self.longest[self.phase as usize].map(|seconds| OVERRUN_FACTOR * seconds);
        Some(longest.unwrap_or(self.limits.unseen_validation).max(least))
    }

    /// When a checkpoint was last complete.
    pub fn last_checkpoint(&self) -> Option<Unix> {
        self.checkpoint.last()
    }

    /// How long the run may go without a complete checkpoint, in seconds; absent until it has shown its usual gap.
    pub fn checkpoint_ceiling(&self) -> Option<f64> {
        let known = self.checkpoint.learned(Phase::Checkpoint) && self.phase.live();
        let gap = Bound {
            lower: 0.0,
            start: 0.0,
        };
        known.then(|| {
            self.checkpoint
                .ceiling(Phase::Checkpoint, gap, CHECKPOINT_FACTOR)
        })
    }

    /// The ceiling comes from what this run has shown, no longer from a start value.
    pub fn learned(&self) -> bool {
        if self.unseen() {
            self.longest_pass().is_some()
        } else {
            self.progress.learned(self.phase)
        }
    }

    /// How long the longest earlier validation took, in seconds.
    pub fn longest_pass(&self) -> Option<f64> {
        self.longest[Phase::Validation as usize]
    }

    /// The limits that this run is judged by.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Recompilations of the rank that has most, and the frames that Dynamo gave up on.
    pub fn recompiles(&self) -> (u64, u64) {
        (self.recompiles.count(), self.recompiles.limit_hits())
    }
}

#[cfg(test)]
mod tests;
