//! When something last moved, and how long it may stand still.
//!
//! A run has two clocks: P, marked by progress in its numbers, and Q, marked by work of its processes and GPUs.
//! A clock learns the gaps between its marks for each phase apart. Marks of one read share one time and teach nothing.

use super::cadence::{Bound, Cadence};
use super::{Phase, Unix};

/// One clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clock {
    last: Option<Unix>,
    cadences: [Cadence; Phase::COUNT],
}

impl Clock {
    /// When it was last marked; absent before the first mark.
    pub fn last(&self) -> Option<Unix> {
        self.last
    }

    /// Seconds since the last mark.
    pub fn silence(&self, now: Unix) -> Option<f64> {
        self.last.map(|last| (now - last).max(0.0))
    }

    /// Something moved at `at`, in `phase`. The gap that ends here is remembered if it `teaches`.
    pub fn mark(&mut self, at: Unix, phase: Phase, teaches: impl FnOnce(f64) -> bool) {
        let Some(gap) = self.silence(at) else {
            self.last = Some(at);
            return;
        };
        if gap > 0.0 && teaches(gap) {
            self.cadences[phase as usize].teach(gap);
        }
        self.last = larger(self.last, Some(at));
    }

    /// Time in which nothing could move, such as a suspension, does not count.
    pub fn halt(&mut self, seconds: f64) {
        self.last = self.last.map(|last| last + seconds);
    }

    /// The silence in `phase` that is still healthy.
    pub fn ceiling(&self, phase: Phase, bound: Bound, factor: f64) -> f64 {
        self.cadences[phase as usize].ceiling(bound, factor)
    }

    /// The ceiling in `phase` comes from what this run has shown, no longer from a start value.
    pub fn learned(&self, phase: Phase) -> bool {
        self.cadences[phase as usize].learned()
    }
}

/// The larger of two numbers of which either may be unknown.
pub fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (one, other) => one.or(other),
    }
}
