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
