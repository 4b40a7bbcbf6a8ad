//! How long a run may be silent: the gaps that it has shown while it was healthy, and the ceilings they lead to.
//!
//! ceiling = max(lower, factor x g, 2 x the largest healthy gap), where g is the second largest of the last 200 gaps;
//! before three gaps are known, the start value. No upper bound: a run that logs once an hour is judged by the hour.
//! All start values stand here, in `Limits`, and nowhere else.

use std::collections::VecDeque;

use serde::Deserialize;

use super::Phase;

/// How many gaps are remembered.
const REMEMBERED: usize = 200;
/// How many gaps must be known before they say anything.
const ENOUGH: usize = 3;

/// A lower bound and a start value, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// No learned ceiling falls below this.
    pub lower: f64,
    /// The ceiling before enough gaps are known.
    pub start: f64,
}

/// Every length of time that a verdict rests on, in seconds. The defaults are the contract's (design, section 3).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Progress in training.
    pub train: Bound,
    /// Progress in a validation whose numbers can be seen.
    pub validation: Bound,
    /// Progress in a checkpoint.
    pub checkpoint: Bound,
    /// Progress before the first step.
    pub init: Bound,
    /// Work of any process or GPU.
    pub quiet: Bound,
    /// The first validation whose numbers cannot be seen; later ones get three times the longest earlier pass.
    pub unseen_validation: f64,
    /// The window over which processes are judged.
    pub work_window: f64,
    /// The least that "slow, but alive" may last in training before it is called hung.
    pub patience: f64,
    /// How long a run of no live process and no new byte is still exported.
    pub retention: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            train: Bound {
                lower: 300.0,
                start: 600.0,
            },
            validation: Bound {
                lower: 300.0,
                start: 600.0,
            },
            checkpoint: Bound {
                lower: 600.0,
                start: 900.0,
            },
            init: Bound {
                lower: 2700.0,
                start: 2700.0,
            },
            quiet: Bound {
                lower: 180.0,
                start: 300.0,
            },
            unseen_validation: 7200.0,
            work_window: 60.0,
            patience: 3600.0,
            retention: 3600.0,
        }
    }
}

impl Limits {
    /// The same limits in a world that runs `speed` times faster.
    pub fn faster(&self, speed: f64) -> Self {
        let bound = |b: Bound| Bound {
            lower: b.lower / speed,
            start: b.start / speed,
        };
        Self {
            train: bound(self.train),
            validation: bound(self.validation),
            checkpoint: bound(self.checkpoint),
            init: bound(self.init),
            quiet: bound(self.quiet),
            unseen_validation: self.unseen_validation / speed,
            work_window: self.work_window / speed,
            patience: self.patience / speed,
            retention: self.retention / speed,
        }
    }

    /// The bound of progress in `phase`; only live phases have one.
    pub fn progress(&self, phase: Phase) -> Option<Bound> {
        match phase {
            Phase::Init => Some(self.init),
            Phase::Train => Some(self.train),
            Phase::Validation => Some(self.validation),
            Phase::Checkpoint => Some(self.checkpoint),
            Phase::Finished | Phase::Failed | Phase::Unknown => None,
        }
    }
}

/// The healthy gaps of one clock in one phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cadence {
    /// The newest `REMEMBERED` gaps in seconds, oldest first.
    gaps: VecDeque<f64>,
    /// The largest gap ever learned here.
    largest: f64,
}

impl Cadence {
    /// Remembers a gap that ended well.
    pub fn teach(&mut self, gap: f64) {
        if self.gaps.len() == REMEMBERED {
            self.gaps.pop_front();
        }
        self.gaps.push_back(gap);
        self.largest = self.largest.max(gap);
    }

    /// Enough gaps are known for the ceiling to come from them.
    pub fn learned(&self) -> bool {
        self.gaps.len() >= ENOUGH
    }

    /// The silence that is still healthy, in seconds.
    pub fn ceiling(&self, bound: Bound, factor: f64) -> f64 {
        let floor = 2.0 * self.largest;
        if !self.learned() {
            return bound.start.max(floor);
        }
        bound.lower.max(factor * self.second_largest()).max(floor)
    }

    fn second_largest(&self) -> f64 {
        let (mut first, mut second) = (0.0_f64, 0.0_f64);
        for &gap in &self.gaps {
            if gap >= first {
                (first, second) = (gap, first);
            } else if gap > second {
                second = gap;
            }
        }
        second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound = Bound {
        lower: 300.0,
        start: 600.0,
    };

    fn ceiling(gaps: &[f64]) -> f64 {
        let mut cadence = Cadence::default();
        gaps.iter().for_each(|&gap| cadence.teach(gap));
        cadence.ceiling(BOUND, 5.0)
    }

    #[test]
    fn ceilings_follow_the_second_largest_gap() {
        assert_eq!(ceiling(&[]), 600.0);
        assert_eq!(ceiling(&[1.0, 1.0]), 600.0, "two gaps say nothing");
        assert_eq!(ceiling(&[1.0, 1.0, 1.0]), 300.0);
        assert_eq!(ceiling(&[100.0, 1.0, 90.0]), 450.0);
        assert_eq!(
            ceiling(&[1200.0, 1.0, 1.0]),
            2400.0,
            "one long healthy gap counts twice"
        );
        assert_eq!(ceiling(&[1200.0]), 2400.0, "also before three are known");
    }

    #[test]
    fn old_gaps_are_forgotten_but_never_the_largest() {
        let mut gaps = vec![400.0, 400.0];
        gaps.resize(2 + REMEMBERED, 1.0);
        assert_eq!(ceiling(&gaps), 800.0);
    }
}
