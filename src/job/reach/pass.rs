//! The passes of a validation: where one begins, how far it is, and the result that completes it, perhaps late.

use super::rises;
use crate::job::observation::Progress;
use crate::job::{Job, Phase, Unix};

/// The sign that a validation goes on, which needs no other rank.
const VALIDATED: u32 = 1;
/// At most so many passes wait for their result.
const AWAITED: usize = 64;

impl Job {
    /// How far a validation is. It begins here if none is under way and this is no straggler of the one before.
    pub(in crate::job) fn validate(&mut self, progress: Progress, at: Unix) {
        if self.counted_on.stragglers > 0 {
            return;
        }
        if self.phase != Phase::Validation || self.validation_complete {
            if !self.begins(progress) || !self.lives_on(VALIDATED) {
                return;
            }
            if self.phase == Phase::Validation {
                // The next data set of the same pass.
                self.counted_on.left(self.marks.validation, self.validation);
                (self.validation, self.validation_complete) = (None, false);
                self.marks.validation = None;
            }
            self.enter(Phase::Validation, at);
            if self.counted_on.awaited.len() >= AWAITED {
                self.counted_on.awaited.pop_front();
            }
            let step = self.step.map(|step| step.done);
            self.counted_on.awaited.push_back(step);
        }
        self.reach_validation(progress, at);
    }

    /// This is of a new pass.
    fn begins(&self, new: Progress) -> bool {
        let newest = if self.phase == Phase::Validation {
            self.validation
        } else {
            self.counted_on.pass
        };
        let Some(before) = newest else {
            return !new.full();
        };
        let early = new.of.is_none_or(|of| new.done <= of / 2);
        let trained = self.phase != Phase::Validation && self.counted_on.trained;
        early && !new.full() && (trained || new.done < before.done || new.of != before.of)
    }

    pub(in crate::job) fn reach_validation(&mut self, progress: Progress, at: Unix) {
        if self.phase != Phase::Validation || self.validation_complete {
            return;
        }
        if self.validation.is_some_and(Progress::full) && !progress.full() {
            // Another data set of the same pass begins.
            self.marks.validation = None;
        }
        let of = progress.of.or(self.validation.and_then(|now| now.of));
        // Ranks that draw the same bar are a little apart; one that falls to less than half is of another data set.
        let ahead = self
            .validation
            .filter(|now| now.of == of && progress.done >= now.done / 2);
        let done = ahead.map_or(progress.done, |now| now.done.max(progress.done));
        self.validation = Some(Progress { done, of });
        if rises(&mut self.marks.validation, progress.done) {
            self.progressed(at);
        }
    }

    /// The oldest pass without a result has one. The pass under way is complete if it is that one.
    pub(in crate::job) fn result(&mut self, epochs_done: Option<f64>, at: Unix) {
        let own = self.counted_on.awaited.len() <= 1;
        let step = self.counted_on.awaited.pop_front().flatten();
        if let Some((step, done)) = step.zip(epochs_done) {
            self.learn_epoch(step, done, at);
        } else if let Some(done) = epochs_done {
            self.epochs_done(done, None, at);
        }
        if own {
            self.complete_validation(at);
        }
    }

    pub(in crate::job) fn complete_validation(&mut self, at: Unix) {
        if self.phase != Phase::Validation || self.validation_complete {
            return;
        }
        self.validation_complete = true;
        if let Some(Progress { done, of: Some(of) }) = &mut self.validation {
            *done = *of;
        }
        if let Some(seconds) = self
            .phase_since
            .map(|since| at - since)
            .filter(|&seconds| seconds > 0.0)
        {
            self.validations.add(seconds);
            self.lasted(Some(seconds));
        }
        self.progressed(at);
    }
}
