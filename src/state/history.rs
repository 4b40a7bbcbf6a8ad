//! What a run did over the last hours, for people: its phases, and what its GPUs did meanwhile.
//!
//! Bounded, whatever comes: at most `PHASES` spans and `SLOTS` slots. Slots begin narrow; when they are full, each two
//! become one, until together they cover six hours and the oldest fall out. So a young run is shown second by second, and
//! an old one costs no more. Pure: nothing is judged by it, and the exporter's restart forgets it.

use std::collections::VecDeque;

use super::Run;
use crate::job::{Phase, Unix};
use crate::node::gpu::Gpu;

/// The most spans that are kept.
const PHASES: usize = 256;
/// The most slots that are kept.
const SLOTS: usize = 180;
/// How wide a slot is at first and at most, in seconds. GPUs are read each second: no slot is empty by chance.
const NARROW: f64 = 2.0;
const WIDE: f64 = 128.0;
/// Nothing older is kept, in seconds.
const HORIZON: f64 = WIDE * SLOTS as f64;

/// The last hours of one run.
#[derive(Clone, Debug)]
pub struct History {
    phases: VecDeque<Span>,
    slots: VecDeque<Slot>,
    /// When the first slot begins.
    begin: Unix,
    width: f64,
}

impl Default for History {
    fn default() -> Self {
        Self {
            phases: VecDeque::new(),
            slots: VecDeque::new(),
            begin: 0.0,
            width: NARROW,
        }
    }
}

/// A time spent in one phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The phase.
    pub phase: Phase,
    /// When it began.
    pub begin: Unix,
    /// When it ended; absent for the one under way.
    pub end: Option<Unix>,
}

/// Means over the GPUs of the run and over the time of a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    util: Mean,
    watts: Mean,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.sum += value;
            self.count = self.count.saturating_add(1);
        }
    }

    fn with(self, other: Self) -> Self {
        Self {
            sum: self.sum + other.sum,
            count: self.count.saturating_add(other.count),
        }
    }

    fn get(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

impl History {
    /// The run is in this phase at `now`, and has been since then, where that is known.
    pub fn phase(&mut self, phase: Phase, since: Option<Unix>, now: Unix) {
        let begin = since.unwrap_or(now).min(now);
        match self.phases.back_mut() {
            // What came before its first word is nobody's phase.
            None if phase == Phase::Unknown => return,
            Some(last) if last.phase == phase => return,
            Some(last) if last.begin >= begin => {
                // It took no time, or the clock was set.
                self.phases.pop_back();
                return self.phase(phase, since, now);
            }
            Some(last) => last.end = Some(begin),
            None => {}
        }
        self.phases.push_back(Span {
            phase,
            begin,
            end: None,
        });
        let old = |span: &Span| span.end.is_some_and(|end| end < now - HORIZON);
        while self.phases.len() > PHASES || self.phases.front().is_some_and(old) {
            self.phases.pop_front();
        }
    }

    /// What its GPUs did at `now`: their mean utilisation (0 to 1) and power.
    pub fn drew(&mut self, util: Option<f64>, watts: Option<f64>, now: Unix) {
        if self.slots.is_empty() || !(0.0..2.0 * HORIZON).contains(&(now - self.begin)) {
            self.slots.clear();
            (self.begin, self.width) = (now, NARROW);
        }
        while now >= self.begin + self.width * SLOTS as f64 {
            if self.width < WIDE {
                self.widen();
            } else {
                self.slots.pop_front();
                self.begin += self.width;
            }
        }
        let slot = ((now - self.begin) / self.width) as usize;
        while self.slots.len() <= slot {
            self.slots.push_back(Slot::default());
        }
        self.slots[slot].util.add(util);
        self.slots[slot].watts.add(watts);
    }

    /// Makes one slot of each two.
    fn widen(&mut self) {
        let pairs = self.slots.make_contiguous().chunks(2);
        self.slots = pairs
            .map(|pair| {
                pair.iter().fold(Slot::default(), |sum, slot| Slot {
                    util: sum.util.with(slot.util),
                    watts: sum.watts.with(slot.watts),
                })
            })
            .collect();
        self.width *= 2.0;
    }

    /// The phases, oldest first.
    pub fn phases(&self) -> impl Iterator<Item = Span> {
        self.phases.iter().copied()
    }

    /// How long the newest phase of this kind took that is over, in seconds.
    pub fn last(&self, phase: Phase) -> Option<f64> {
        let mut newest = self.phases.iter().rev();
        newest
            .find(|span| span.phase == phase && span.end.is_some())
            .and_then(|span| Some(span.end? - span.begin))
    }

    /// When the first slot begins, and how wide each is, in seconds.
    pub fn slots(&self) -> (Unix, f64) {
        (self.begin, self.width)
    }

    /// Utilisation (0 to 1) and power of each slot, oldest first; absent where nothing was read.
    pub fn samples(&self) -> impl Iterator<Item = (Option<f64>, Option<f64>)> {
        self.slots
            .iter()
            .map(|slot| (slot.util.get(), slot.watts.get()))
    }
}

impl Run {
    /// Remembers what the run is doing.
    pub(super) fn remember_phase(&mut self, now: Unix) {
        let job = &self.job;
        self.history
            .phase(job.phase, job.phase_since.or(job.started), now);
    }

    /// Remembers what its GPUs do.
    pub(super) fn remember_gpus(&mut self, gpus: &[Gpu], now: Unix) {
        let (mut util, mut watts) = (Mean::default(), Mean::default());
        for gpu in self.own_gpus(gpus) {
            util.add(gpu.util);
            watts.add(gpu.power_watts);
        }
        self.history.drew(util.get(), watts.get(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(history: &History) -> Vec<(Phase, f64, Option<f64>)> {
        history
            .phases()
            .map(|span| (span.phase, span.begin, span.end))
            .collect()
    }

    #[test]
    fn phases_follow_one_another_and_empty_ones_are_none() {
        let mut history = History::default();
        history.phase(Phase::Unknown, None, 1.0);
        history.phase(Phase::Init, Some(2.0), 3.0);
        history.phase(Phase::Init, Some(2.0), 4.0);
        history.phase(Phase::Train, Some(10.0), 11.0);
        history.phase(Phase::Checkpoint, Some(10.0), 11.0);
        history.phase(Phase::Validation, Some(20.0), 20.5);
        assert_eq!(
            spans(&history),
            [
                (Phase::Init, 2.0, Some(10.0)),
                (Phase::Checkpoint, 10.0, Some(20.0)),
                (Phase::Validation, 20.0, None)
            ]
        );
        assert_eq!(history.last(Phase::Checkpoint), Some(10.0));
        assert_eq!(history.last(Phase::Validation), None, "it is under way");
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_no_span_that_ends_before_it_begins() {
        let mut history = History::default();
        history.phase(Phase::Init, Some(100.0), 100.0);
        history.phase(Phase::Train, Some(200.0), 200.0);
        history.phase(Phase::Validation, Some(50.0), 50.0);
        assert_eq!(spans(&history), [(Phase::Validation, 50.0, None)]);
    }

    #[test]
    fn two_weeks_cost_no_more_than_six_hours() {
        let mut history = History::default();
        let mut now = 1e9;
        for minute in 0..20_160_u32 {
            now += 60.0;
            let validates = minute % 2 == 0;
            let phase = if validates {
                Phase::Validation
            } else {
                Phase::Train
            };
            history.phase(phase, Some(now), now);
            history.drew(Some(f64::from(u8::from(validates))), None, now);
            assert!(history.phases.len() <= PHASES && history.slots.len() <= SLOTS);
        }
        let (begin, width) = history.slots();
        assert_eq!(width, WIDE);
        assert!(now - begin <= HORIZON && now - begin > HORIZON - 2.0 * WIDE);
        let mean: f64 = history.samples().filter_map(|(util, _)| util).sum::<f64>() / SLOTS as f64;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert!(history.samples().all(|(_, watts)| watts.is_none()));
    }

    #[test]
    fn slots_widen_and_keep_their_means_and_their_gaps() {
        let mut history = History::default();
        for second in 0..300_u32 {
            let util = (!(100..200).contains(&second)).then_some(f64::from(second / 100) / 4.0);
            history.drew(util, Some(80.0), f64::from(second) + 0.5);
        }
        let at_first: Vec<_> = history.samples().collect();
        assert_eq!((history.slots().1, at_first.len()), (NARROW, 150));
        for second in 300..400_u32 {
            history.drew(Some(0.5), Some(80.0), f64::from(second) + 0.5);
        }
        let later: Vec<_> = history.samples().collect();
        assert_eq!((history.slots().1, later.len()), (2.0 * NARROW, 100));
        assert_eq!(
            [later[0].0, later[30].0, later[60].0],
            [Some(0.0), None, Some(0.5)]
        );
        assert!(later.iter().all(|(_, watts)| *watts == Some(80.0)));
    }

    #[test]
    fn a_clock_that_jumps_begins_anew() {
        let mut history = History::default();
        for now in [1000.0, 1e12, 5.0] {
            history.drew(Some(0.5), None, now);
            assert_eq!(history.slots(), (now, NARROW));
            assert_eq!(history.samples().count(), 1);
        }
    }
}
