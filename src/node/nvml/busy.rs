//! Utilisation over time: each sample of the driver counts once, for the time since the one before it. Pure.

use crate::job::Unix;

/// Microseconds of the newest samples that make up "now".
const WINDOW_US: u64 = 1_000_000;
/// A sample stands for at most so many seconds: over a longer gap nobody knows. The driver takes several a second.
const LONGEST: f64 = 2.0;
/// Without a new sample for so many seconds the buffer stands still, or its clock was set back.
const STALE: f64 = 3.0;

/// What is known of one GPU's utilisation.
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// Utilisation integrated since the first look, in seconds.
    pub(super) seconds: f64,
    /// The newest samples: driver's time in microseconds, and 0 to 1.
    recent: Vec<(u64, f64)>,
    /// Driver's time of the newest sample ever taken.
    newest: Option<u64>,
    /// The newest sample has been counted, so what follows it may be.
    joined: bool,
    /// Ask for the whole buffer.
    anew: bool,
    /// When a new sample was last seen, and when polling last gave a value.
    fresh: Option<Unix>,
    polled: Option<Unix>,
}

impl Busy {
    /// Only samples later than this are wanted; driver's time in microseconds.
    pub(super) fn seen(&self) -> u64 {
        self.newest.filter(|_| !self.anew).unwrap_or_default()
    }

    /// Takes what the driver's buffer gained. The mean of the last second, or none if the buffer stands still.
    pub(super) fn sampled(&mut self, mut samples: Vec<(u64, f64)>, now: Unix) -> Option<f64> {
        let newest = samples.iter().map(|(at, _)| *at).max().unwrap_or(0);
        if self.anew && newest > 0 && self.newest.is_some_and(|seen| newest < seen) {
            self.newest = None;
            self.recent.clear();
        }
        // Some drivers give more than was asked for, and empty places.
        let seen = self.newest.unwrap_or(0);
        samples.retain(|(at, _)| *at > seen);
        if !samples.is_empty() {
            samples.sort_unstable_by_key(|(at, _)| *at);
            self.count(&samples);
            (self.newest, self.fresh, self.anew) = (Some(newest), Some(now), false);
            self.recent.extend(samples);
            let from = newest.saturating_sub(WINDOW_US);
            self.recent.retain(|(at, _)| *at > from);
        }
        let silent = self.fresh.map_or(f64::INFINITY, |fresh| now - fresh);
        if !(0.0..=STALE).contains(&silent) {
            self.anew = true;
            self.joined = false;
            return None;
        }
        self.polled = None;
        let sum: f64 = self.recent.iter().map(|(_, ratio)| ratio).sum();
        Some(sum / self.recent.len() as f64)
    }

    /// Adds what follows the sample that was counted last. The first look finds a buffer of the past: it only joins.
    fn count(&mut self, samples: &[(u64, f64)]) {
        let Some(mut before) = self.newest.filter(|_| self.joined) else {
            self.joined = true;
            return;
        };
        for (at, ratio) in samples {
            let seconds = (at - before) as f64 / 1e6;
            self.seconds += ratio * seconds.min(LONGEST);
            before = *at;
        }
    }

    /// Takes a value of the moment, where there are no samples; it stands for the time since the one before it.
    pub(super) fn polled(&mut self, ratio: f64, now: Unix) -> f64 {
        let since = self.polled.or(self.fresh).unwrap_or(now);
        self.seconds += ratio * (now - since).clamp(0.0, LONGEST);
        self.polled = Some(now);
        // Samples that cover this time must not count it again.
        self.joined = false;
        ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(from_ms: u64, to_ms: u64, ratio: impl Fn(u64) -> f64) -> Vec<(u64, f64)> {
        (from_ms..to_ms)
            .step_by(100)
            .map(|ms| ((ms + 100) * 1_000, ratio(ms)))
            .collect()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn each_sample_counts_once_and_the_past_does_not() {
        let wave = |ms| f64::from(u8::from(ms % 1_000 >= 500));
        let mut busy = Busy::default();
        assert_eq!(busy.seen(), 0);
        let first = busy.sampled(samples(0, 10_000, wave), 10.0);
        assert_eq!((first, busy.seconds), (Some(0.5), 0.0));
        assert_eq!(busy.seen(), 10_000_000);
        for second in 10..20 {
            let now = (second + 1) as f64;
            let util = busy.sampled(samples(second * 1_000, second * 1_000 + 1_000, wave), now);
            assert!(close(util.unwrap(), 0.5), "{util:?}");
        }
        assert!(close(busy.seconds, 5.0), "{}", busy.seconds);
        assert_eq!(busy.sampled(Vec::new(), 20.5), Some(0.5), "nothing new");
        assert!(close(busy.seconds, 5.0));
    }

    #[test]
    fn a_gap_counts_no_more_than_its_bound() {
        let mut busy = Busy::default();
        busy.sampled(samples(0, 100, |_| 1.0), 0.1);
        busy.sampled(samples(60_000, 60_100, |_| 1.0), 60.1);
        assert!(close(busy.seconds, LONGEST), "{}", busy.seconds);
    }

    #[test]
    fn where_samples_end_polls_go_on_and_nothing_counts_twice() {
        let mut busy = Busy::default();
        busy.sampled(samples(0, 1_000, |_| 1.0), 1.0);
        assert!(busy.sampled(Vec::new(), 3.9).is_some());
        assert_eq!(busy.sampled(Vec::new(), 4.5), None);
        assert_eq!(busy.polled(1.0, 4.5), 1.0);
        busy.polled(1.0, 5.5);
        assert!(close(busy.seconds, LONGEST + 1.0), "{}", busy.seconds);
        // The buffer is whole and old: still none. Then it goes on, over time that polls have covered.
        assert_eq!(busy.seen(), 0);
        assert_eq!(busy.sampled(samples(0, 1_000, |_| 1.0), 6.0), None);
        assert!(busy.sampled(samples(0, 6_500, |_| 1.0), 6.5).is_some());
        assert!(close(busy.seconds, LONGEST + 1.0), "{}", busy.seconds);
        busy.sampled(samples(6_500, 7_500, |_| 1.0), 7.5);
        assert!(close(busy.seconds, LONGEST + 2.0), "{}", busy.seconds);
    }

    #[test]
    fn a_driver_clock_that_is_set_back_is_followed() {
        let mut busy = Busy::default();
        busy.sampled(samples(100_000, 101_000, |_| 1.0), 101.0);
        assert_eq!(busy.sampled(Vec::new(), 105.0), None);
        assert_eq!(busy.seen(), 0, "the whole buffer is asked for");
        assert_eq!(
            busy.sampled(samples(50_000, 51_000, |_| 0.25), 105.0),
            Some(0.25)
        );
        assert_eq!(busy.seconds, 0.0);
        busy.sampled(samples(51_000, 52_000, |_| 0.5), 106.0);
        assert!(close(busy.seconds, 0.5), "{}", busy.seconds);
    }
}
