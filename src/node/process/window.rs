//! What counters prove over a sliding window: WORK (somebody lives), BUSY (which proves nothing) or STILL.
//!
//! Thresholds were fitted on 38 real jobs and held on seven fresh ones.

use std::collections::VecDeque;

use super::Counters;
use crate::job::Unix;

/// What the counters of a window prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Somebody read, wrote, opened, faulted in pages or compiled: alive.
    Work,
    /// Somebody computes or spins: proves nothing.
    Busy,
    /// Neither.
    Still,
}

/// Bytes read by main threads in a window. Hung jobs: 0; healthy readers: 1.7 MB and more.
const READ: f64 = 64.0 * 1024.0;
/// Page faults of main threads in a window. Hung jobs: up to 20; healthy ones: 1,200 and more.
const PAGE: f64 = 500.0;
/// Bytes written by main threads, and bytes sent to storage by whole processes (a helper thread of a hung job: 369 kB).
const WRITE: f64 = 1024.0 * 1024.0;
const DISK: f64 = 16.0 * 1024.0 * 1024.0;
/// CPU seconds of new children, such as compilers.
const CHILD: f64 = 5.0;
/// Shares of a core from which on the main threads, or all threads, are busy.
const MAIN_BUSY: f64 = 0.01;
const ALL_BUSY: f64 = 0.5;
/// The part of a window over which work must show for it to be work of just now. An idle loader worker's poll gives 20
/// page faults at once: nothing in this part, but the whole share of a second.
const JUST_NOW: f64 = 1.0 / 12.0;

/// What the counters say of the time between two looks. `pace` is how much faster than real time the counters run: 1
/// but in a simulation.
pub fn judge(before: &Counters, after: &Counters, seconds: f64, pace: f64) -> Evidence {
    let rise = |a: f64, b: f64| (b - a).max(0.0);
    let rise_of = |a: Option<f64>, b: Option<f64>| a.zip(b).map_or(0.0, |(a, b)| rise(a, b));
    let opened = before
        .files_opened
        .zip(after.files_opened)
        .is_some_and(|(a, b)| b > a);
    let work = rise_of(before.read_bytes, after.read_bytes) >= READ
        || rise(before.page_faults, after.page_faults) >= PAGE
        || rise_of(before.written_bytes, after.written_bytes) >= WRITE
        || rise_of(before.disk_written_bytes, after.disk_written_bytes) >= DISK
        || rise_of(before.child_cpu_seconds, after.child_cpu_seconds) >= CHILD
        || opened;
    let core_seconds = seconds * pace;
    if work {
        Evidence::Work
    } else if rise(before.main_cpu_seconds, after.main_cpu_seconds) >= MAIN_BUSY * core_seconds
        || rise_of(before.all_cpu_seconds, after.all_cpu_seconds) >= ALL_BUSY * core_seconds
    {
        Evidence::Busy
    } else {
        Evidence::Still
    }
}

/// Looks at one run over a sliding window.
#[derive(Clone, Debug)]
pub struct Window {
    /// Seconds that a judgement covers.
    length: f64,
    pace: f64,
    looks: VecDeque<(Unix, Counters)>,
    worked_at: Option<Unix>,
}

impl Window {
    /// A window of so many seconds, in a world that runs `pace` times faster than real time.
    pub fn new(length: f64, pace: f64) -> Self {
        Self {
            length,
            pace,
            looks: VecDeque::new(),
            worked_at: None,
        }
    }

    /// From here on a judgement covers so many seconds; looks that reach as far back are kept from here on.
    pub fn covers(&mut self, length: f64) {
        self.length = length;
    }

    /// Takes in a look and judges the window that ends with it. Work is known as soon as it is seen; that there was
    /// none takes a whole window, and before that nothing is said.
    pub fn look(&mut self, at: Unix, counters: Counters) -> Option<Evidence> {
        // Counters that fall are those of other processes; a clock that falls was set.
        if let Some((newest, _)) = self.looks.back()
            && (self.is_anew(&counters) || at < *newest)
        {
            self.forget();
            self.worked_at = self.worked_at.filter(|&worked| worked <= at);
        }
        let just_now = self.bursts(at, &counters);
        self.looks.push_back((at, counters));
        // The oldest look that is kept is the newest one that lies a whole window back.
        while self.looks.len() > 2 && self.looks[1].0 <= at - self.length {
            self.looks.pop_front();
        }
        let (since, before) = *self.looks.front().filter(|(since, _)| *since < at)?;
        let evidence = judge(&before, &counters, at - since, self.pace);
        if evidence == Evidence::Work
            && (just_now || self.worked_at.is_none_or(|last| last < at - self.length))
        {
            self.worked_at = Some(at);
        }
        (evidence == Evidence::Work || at - since >= self.length).then_some(evidence)
    }

    /// When work was last seen: at the newest look at which both the time since the look before and the newest part of
    /// the window had their share of the thresholds. So it stands still within a look of a hang's beginning.
    pub fn worked_at(&self) -> Option<Unix> {
        self.worked_at
    }

    /// These counters are the first, or of other processes than those of the last look.
    pub(super) fn is_anew(&self, counters: &Counters) -> bool {
        let last = self.looks.back().map(|(_, last)| last);
        last.is_none_or(|last| fell(last, counters))
    }

    /// What was seen was of others.
    pub(super) fn forget(&mut self) {
        self.looks.clear();
    }

    fn bursts(&self, at: Unix, counters: &Counters) -> bool {
        let before = self.looks.iter().rev();
        let newest = before.clone().next();
        let part = before
            .take_while(|(since, _)| at - since < self.length * JUST_NOW)
            .count();
        let part = self.looks.iter().rev().nth(part).or(self.looks.front());
        [newest, part].into_iter().all(|look| {
            look.is_some_and(|(since, before)| self.is_burst(before, counters, at - since))
        })
    }

    fn is_burst(&self, before: &Counters, after: &Counters, seconds: f64) -> bool {
        let share = (seconds / self.length).clamp(f64::MIN_POSITIVE, 1.0);
        judge(
            &scaled(before, share),
            &scaled(after, share),
            seconds,
            self.pace,
        ) == Evidence::Work
    }
}

/// Counters such that the rise over a part of a window stands for the rise over a whole one.
fn scaled(counters: &Counters, share: f64) -> Counters {
    let whole = |value: f64| value / share;
    Counters {
        read_bytes: counters.read_bytes.map(whole),
        written_bytes: counters.written_bytes.map(whole),
        page_faults: whole(counters.page_faults),
        disk_written_bytes: counters.disk_written_bytes.map(whole),
        child_cpu_seconds: counters.child_cpu_seconds.map(whole),
        ..*counters
    }
}

fn fell(before: &Counters, after: &Counters) -> bool {
    after.main_cpu_seconds < before.main_cpu_seconds || after.page_faults < before.page_faults
}
