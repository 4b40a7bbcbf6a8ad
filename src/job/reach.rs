//! What the numbers of a log move: epochs, steps, and the parts of a pass.
//!
//! Only a number that was not there before is progress. Bars are redrawn, ranks repeat each other, and a line that was
//! kept in a buffer comes after those that were written later; none of that may begin a pass again, take a run back
//! by an epoch, or undo a failure.

mod pass;

use std::collections::VecDeque;

use super::observation::Progress;
use super::{Job, Phase, Unix};

/// So many lines of the epoch before, in a row, are no stragglers but a run that went back.
const STRAGGLERS: u32 = 3;
/// A run that failed is at work all the same once its signs of life add up to this: the exception was caught.
const ALIVE: u32 = 8;
/// The sign that training goes on. One step can still come from a rank that has not noticed.
pub(super) const TRAINED: u32 = 4;

/// The highest values within the phase: only what exceeds them is progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Marks {
    step: Option<u64>,
    pub(super) bar: Option<u64>,
    pub(super) validation: Option<u64>,
    pub(super) files: Option<u64>,
}

/// What is remembered of numbers beyond the phase in which they came.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counted {
    /// The bar of the epoch under way.
    bar: Option<(Option<u64>, Progress)>,
    /// The log counts epochs from 0.
    from_zero: bool,
    /// How far the newest pass came.
    pass: Option<Progress>,
    /// Training has gone on since.
    trained: bool,
    /// The step at which each pass without a result began.
    awaited: VecDeque<Option<u64>>,
    /// Steps of an epoch, and whether that is exact.
    steps_per_epoch: Option<(f64, bool)>,
    /// Lines of the epoch before, in a row; what comes with such a line is as old.
    stragglers: u32,
    /// So many epochs were done in the newest line of the training.
    trained_to: f64,
    /// Planned epochs and steps.
    planned: (Option<u64>, Option<u64>),
    /// The epoch is the first one only because nothing else is known.
    guessed: bool,
    /// Signs of life after a failure.
    signs: u32,
}

impl Counted {
    /// A pass was left.
    pub(super) fn left(&mut self, highest: Option<u64>, pass: Option<Progress>) {
        self.trained = false;
        if let Some(pass) = pass {
            self.pass = Some(Progress {
                done: highest.unwrap_or(pass.done),
                of: pass.of,
            });
        }
    }
}

impl Job {
    /// This sign of life, with those before, shows that the run goes on. One that has not failed always does.
    pub(super) fn lives_on(&mut self, sign: u32) -> bool {
        let failed = self.phase == Phase::Failed;
        if !failed && self.raised.is_none() {
            self.counted_on.signs = 0;
            return true;
        }
        self.counted_on.signs += sign;
        let caught = self.counted_on.signs >= ALIVE;
        self.raised = self.raised.filter(|_| !caught);
        !failed || caught
    }

    pub(super) fn reach_epoch(&mut self, epoch: u64, of: Option<u64>, at: Unix) {
        match self.epoch {
            Some(now) if epoch + 1 == now && self.counted_on.stragglers + 1 < STRAGGLERS => {
                self.counted_on.stragglers += 1;
                return;
            }
            Some(now) if epoch < now => self.start(at),
            Some(_) | None => {}
        }
        self.counted_on.stragglers = 0;
        self.epochs = of.or(self.epochs);
        self.counted_on.guessed = false;
        if self.epoch == Some(epoch) {
            return;
        }
        if let Some(seconds) = self
            .epoch_since
            .map(|since| at - since)
            .filter(|&seconds| seconds > 0.0)
        {
            self.epochs_done.add(seconds);
        }
        self.epoch = Some(epoch);
        self.epoch_since = Some(at);
        self.marks = Marks::default();
        self.progressed(at);
    }

    /// An epoch as it is printed, from 0 or from 1.
    pub(super) fn counted_epoch(&mut self, epoch: u64, of: Option<u64>, at: Unix) {
        let from_zero = self.counted_on.from_zero || epoch == 0;
        let epoch = epoch + u64::from(from_zero);
        self.reach_epoch(epoch, of.map(|of| of.max(epoch)), at);
        self.counted_on.from_zero = from_zero;
    }

    /// A fresh run is in its first epoch, until a pass is over and nothing tells how long an epoch is.
    pub(super) fn first_epoch(&mut self, at: Unix) {
        if self.epoch.is_none() && self.passes == 0 {
            self.reach_epoch(1, None, at);
            self.counted_on.guessed = true;
        }
    }

    /// So much is planned.
    pub(super) fn planned(&mut self, epochs: Option<u64>, steps: Option<u64>, at: Unix) {
        let planned = &mut self.counted_on.planned;
        *planned = (epochs.or(planned.0), steps.or(planned.1));
        self.epochs = epochs.or(self.epochs);
        if let (Some(epochs), Some(steps)) = self.counted_on.planned
            && epochs > 0
        {
            self.counted_on.steps_per_epoch = Some((steps as f64 / epochs as f64, true));
            self.epoch_of_step(at);
        }
    }

    /// Training goes on after a pass or a checkpoint: in the next epoch, if the one before was just over.
    pub(super) fn next_epoch(&mut self, at: Unix) {
        if self.passes == 0 {
            return;
        }
        let length = self.counted_on.steps_per_epoch.map(|(length, _)| length);
        if let Some(length) = length
            && let Some(step) = self.step.filter(|step| !step.full())
        {
            let epoch = ((step.done as f64 + 0.5) / length).floor() as u64 + 1;
            self.reach_later_epoch(epoch, at);
        } else if length.is_none() && self.counted_on.guessed {
            self.epoch = None;
        }
    }

    /// So many epochs are done. What comes from a buffer is late, so this never leads back.
    pub(super) fn epochs_done(&mut self, done: f64, step: Option<u64>, at: Unix) {
        if let Some(step) = step {
            self.learn_epoch(step, done, at);
        }
        if self.counted_on.steps_per_epoch.is_none() || self.step.is_none() {
            self.reach_later_epoch(done.ceil().max(1.0) as u64, at);
        }
    }

    /// The same from a line of the training. Without a bar nothing else shows that training goes on, once the pass
    /// under way has its result: lines from one buffer keep their order.
    pub(super) fn epochs_trained(&mut self, done: f64, step: Option<u64>, at: Unix) {
        let bare = self.step.is_none();
        // As with steps, a fall to less than half is another process.
        if bare && self.counted_on.trained_to > 2.0 * done {
            self.start(at);
        }
        self.epochs_done(done, step, at);
        let between = self.phase != Phase::Validation || self.validation_complete;
        let awaited = !self.counted_on.awaited.is_empty();
        if bare && between && !awaited && done > self.counted_on.trained_to {
            self.counted_on.trained_to = done;
            self.trains(at);
            self.progressed(at);
        }
    }

    /// After `step` steps so many epochs were done: so long is one.
    fn learn_epoch(&mut self, step: u64, done: f64, at: Unix) {
        let exact = done.fract() == 0.0;
        let known = self.counted_on.steps_per_epoch;
        if step == 0
            || done <= 0.0
            || !done.is_finite()
            || known.is_some_and(|(_, known)| known && !exact)
        {
            return;
        }
        let mut length = step as f64 / done;
        if let Some(all) = self.step.and_then(|step| step.of) {
            let (epochs, whole) = (all as f64 / length, (all as f64 / length).round());
            // A fraction is printed with few digits, and a bar may be drawn some steps late; a whole number of epochs is
            // what is planned.
            let printed = (epochs - whole).abs() <= 0.02 * epochs;
            let late = exact && (0.0..0.05 * epochs).contains(&(epochs - whole));
            if whole > 0.0 && (printed || (late && all.is_multiple_of(whole as u64))) {
                self.epochs = Some(whole as u64);
                length = all as f64 / whole;
            }
        }
        self.counted_on.steps_per_epoch = Some((length, exact));
        self.epoch_of_step(at);
    }

    /// The epoch under way, from the steps done.
    fn epoch_of_step(&mut self, at: Unix) {
        if let Some((length, _)) = self.counted_on.steps_per_epoch
            && let Some(step) = self.step
        {
            let epoch = ((step.done as f64 - 0.5) / length).ceil().max(1.0) as u64;
            self.reach_later_epoch(epoch, at);
        }
    }

    fn reach_later_epoch(&mut self, epoch: u64, at: Unix) {
        if self.epoch.is_none_or(|now| epoch > now) {
            self.reach_epoch(epoch, None, at);
        }
    }

    /// Takes in the steps done. True if there never were so many.
    pub(super) fn reach_step(&mut self, step: u64, of: Option<u64>, at: Unix) -> bool {
        if self.counted_on.stragglers > 0 {
            return false;
        }
        let known = self.step;
        match known.and_then(|now| now.of).zip(of) {
            // A bar within the training's bar, such as an evaluation's.
            Some((all, part)) if part < all => return false,
            // What was seen before was such a one.
            Some((part, all)) if part < all => {
                (self.step, self.marks.step) = (None, None);
                self.counted_on
                    .awaited
                    .iter_mut()
                    .for_each(|step| *step = None);
            }
            Some(_) | None => {}
        }
        // A counter that begins anew with each epoch.
        if self.epoch != self.step_epoch {
            self.step_epoch = self.epoch;
            self.step = self.step.filter(|now| step >= now.done);
        }
        // Lines of several ranks may come a little out of order; a fall to less than half is another process.
        if self.step.is_some_and(|now| step < now.done / 2) {
            self.start(at);
        }
        self.enrolled |= self.step.is_some_and(|now| now.done != step);
        let risen = self.step.is_none_or(|now| step > now.done);
        let highest = self.step.map_or(step, |now| now.done.max(step));
        let of = of.or(self.step.and_then(|now| now.of));
        self.step = Some(Progress { done: highest, of });
        if rises(&mut self.marks.step, step) {
            self.progressed(at);
        }
        self.epoch_of_step(at);
        risen
    }

    /// So many steps are done: training goes on, if there never were so many.
    pub(super) fn train(&mut self, step: u64, of: Option<u64>, at: Unix) {
        if self.reach_step(step, of, at) {
            self.trains(at);
        }
    }

    /// The same for a bar that begins anew with each epoch.
    pub(super) fn train_bar(&mut self, bar: Progress, at: Unix) {
        if self.counted_on.stragglers > 0 {
            return;
        }
        let before = self.counted_on.bar.filter(|(epoch, before)| {
            // Where no epoch is told, one that falls to less than half is the next.
            *epoch == self.epoch && (epoch.is_some() || bar.done >= before.done / 2)
        });
        // Of an unknown length any bar of the last epoch may be its last.
        let last = bar.of.is_none() && before.is_some() && self.phase == Phase::Finished;
        let redrawn = last || (self.phase.over() && bar.full());
        let old = before.is_some_and(|(_, before)| {
            bar.done <= before.done || self.counts_validation(bar, before.done)
        });
        if redrawn || old {
            return;
        }
        self.counted_on.bar = Some((self.epoch, bar));
        self.trains(at);
        if self.phase == Phase::Train && rises(&mut self.marks.bar, bar.done) {
            self.progressed(at);
        }
    }

    /// The bar goes on from `before` only because it counts the batches of the pass under way, too. One that lags far
    /// behind a pass of unknown length counts its own.
    fn counts_validation(&self, bar: Progress, before: u64) -> bool {
        self.phase == Phase::Validation
            && !self.validation_complete
            && self.validation.is_some_and(|pass| {
                let more = bar.done - before;
                let open = pass.of.is_some() || more >= pass.done / 2;
                more <= pass.done && open && (bar.full() || !pass.full())
            })
    }

    /// The same where the validation of an epoch has such a bar, too: it is the one that begins anew in the epoch.
    pub(super) fn epoch_bar(&mut self, bar: Progress, at: Unix) {
        let own = self
            .counted_on
            .bar
            .filter(|(epoch, _)| *epoch == self.epoch);
        let anew = own.is_some_and(|(epoch, before)| {
            epoch.is_some() && (bar.of != before.of || bar.done < before.done / 2)
        });
        if anew || (own.is_some() && self.phase == Phase::Validation) {
            self.validate(bar, at);
        } else {
            self.train_bar(bar, at);
        }
    }

    fn trains(&mut self, at: Unix) {
        if self.lives_on(TRAINED) {
            self.enter(Phase::Train, at);
            self.counted_on.trained = true;
        }
    }
}

/// Raises `highest` to `value` if it is new.
pub(super) fn rises(highest: &mut Option<u64>, value: u64) -> bool {
    let new = highest.is_none_or(|highest| value > highest);
    if new {
        *highest = Some(value);
    }
    new
}

#[cfg(test)]
mod tests;
