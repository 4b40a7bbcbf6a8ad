//! The phases of a run, and how one follows another.
//!
//! ```text
//!             +--------------------- a new process -------------------+
//!             v                                                       |
//!  unknown -> init -> train <-> validation                            |
//!                       ^  \      ^   |                               |
//!                       |   v     |   v                               |
//!                       +-- checkpoint -+--> finished | failed -------+
//! ```
//!
//! A log may be read from its middle, so every phase can follow `unknown`. A checkpoint ends in the phase that it
//! interrupted. Nothing is inherited over the edge that leads back: a new process has its own clocks.

use super::clock::larger;
use super::observation::{Ended, Fault};
use super::reach::Marks;
use super::{Job, Unix};

/// What a run is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Imports, process groups, data and model are set up; the first compilation.
    Init,
    /// Optimiser steps.
    Train,
    /// A pass over validation data, with its metrics.
    Validation,
    /// State is written.
    Checkpoint,
    /// Over, having done what it was asked to do.
    Finished,
    /// Over with an error.
    Failed,
    /// The log has not told yet. Not a live phase: a run in it is shown, not judged.
    #[default]
    Unknown,
}

impl Phase {
    /// How many there are.
    pub const COUNT: usize = 7;

    /// All of them, in the order in which they are exported.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Init,
        Self::Train,
        Self::Validation,
        Self::Checkpoint,
        Self::Finished,
        Self::Failed,
        Self::Unknown,
    ];

    /// The label value, and the word in a preset.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Checkpoint => "checkpoint",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }

    /// The phase of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }

    /// The run is at work: its clocks run and it can hang.
    pub const fn live(self) -> bool {
        matches!(
            self,
            Self::Init | Self::Train | Self::Validation | Self::Checkpoint
        )
    }

    /// The run is over.
    pub const fn over(self) -> bool {
        matches!(self, Self::Finished | Self::Failed)
    }
}

/// The edges.
impl Job {
    /// The run is in this phase now.
    pub(super) fn enter(&mut self, phase: Phase, at: Unix) {
        if phase == self.phase {
            return;
        }
        if phase == Phase::Checkpoint {
            // A pass that is complete is not begun again.
            let complete = self.phase == Phase::Validation && self.validation_complete;
            self.interrupted = if complete { Phase::Train } else { self.phase };
        }
        if self.phase == Phase::Checkpoint && phase != Phase::Failed {
            self.checkpoint.mark(at, Phase::Checkpoint, |_| true);
        }
        self.leave(at);
        if phase == Phase::Validation {
            self.interrupted = self.phase;
        }
        if phase.live() {
            self.ended = None;
            self.enrolled = true;
        }
        self.progressed(at);
        self.phase = phase;
        self.phase_since = Some(at);
        self.marks = Marks::default();
        if phase == Phase::Train {
            self.next_epoch(at);
        }
    }

    /// What ends with the phase that is left.
    fn leave(&mut self, at: Unix) {
        self.count(at);
        let lasted = self
            .phase_since
            .map(|since| at - since)
            .filter(|&seconds| seconds > 0.0);
        // A validation is as long as its pass, without what follows until the edge.
        if self.phase != Phase::Validation {
            self.lasted(lasted);
        }
        match self.phase {
            Phase::Validation => {
                self.complete_validation(at);
                self.passes += 1;
                self.counted_on.left(self.marks.validation, self.validation);
                let whole = self.files.filter(|files| files.whole && files.opened > 0);
                self.files_before = whole.map(|files| files.opened).or(self.files_before);
                (self.validation, self.files, self.validation_complete) = (None, None, false);
            }
            Phase::Checkpoint => lasted
                .into_iter()
                .for_each(|seconds| self.checkpoints.add(seconds)),
            Phase::Init | Phase::Train | Phase::Finished | Phase::Failed | Phase::Unknown => {}
        }
    }

    /// A phase of this kind took so long, in seconds.
    pub(super) fn lasted(&mut self, seconds: Option<f64>) {
        let longest = &mut self.longest[self.phase as usize];
        *longest = larger(*longest, seconds);
    }

    /// The run is over.
    pub(super) fn end(&mut self, reason: Ended, at: Unix) {
        let reason = match (reason, self.last_fault) {
            (Ended::Error, Some(Fault::OutOfMemory)) => Ended::OutOfMemory,
            (reason, _) => reason,
        };
        self.enter(reason.phase(), at);
        // The end of an epoch is told as the next one's beginning, also of the last.
        self.epoch = self
            .epoch
            .map(|now| self.epochs.map_or(now, |all| now.min(all)));
        self.ended = Some((reason, at));
    }
}
