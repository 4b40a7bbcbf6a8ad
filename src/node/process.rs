//! The processes of a run: what their counters say, who of them is gone, and whether their silence may convict.
//!
//! Counters are sums over ranks and their loader workers, main threads only: helper threads (gloo's polls, wandb, a
//! heartbeat) move in a hung job as in a healthy one, main threads do not. What they prove over a window is in
//! `process/window.rs`.

pub mod window;

use std::path::Path;

use crate::job::Unix;
use crate::metric::{Metric, counter, gauge, gauges};
use window::{Evidence, Window};

/// Where processes are read from: `/proc`, or a simulated node.
pub trait Processes: Send {
    /// The processes of the run that writes the log at this path; none if nobody does.
    fn read(&mut self, log: &Path) -> anyhow::Result<Seen>;

    /// Tells which processes of this node hold a GPU context: ranks without a rank in their environment are known by it.
    fn gpu_pids(&mut self, _pids: &[u32]) {}
}

/// The processes of one run at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Ranks, and then loader workers.
    pub pids: Vec<u32>,
    /// How many of them are ranks; absent where that is not told.
    pub ranks: Option<u64>,
    /// Their counters.
    pub counters: Counters,
}

/// Sums over the ranks and loader workers of a run. What may not be read is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Live ranks and loader workers.
    pub processes: u64,
    /// Live ranks that their environment names; absent where it names none.
    pub named_ranks: Option<u64>,
    /// CPU time of main threads, in seconds.
    pub main_cpu_seconds: f64,
    /// CPU time of all threads, in seconds; absent where it was not recorded.
    pub all_cpu_seconds: Option<f64>,
    /// Bytes that main threads got from read calls.
    pub read_bytes: Option<f64>,
    /// Bytes that main threads gave to write calls.
    pub written_bytes: Option<f64>,
    /// Page faults of main threads, minor and major.
    pub page_faults: f64,
    /// Bytes that the processes sent to storage.
    pub disk_written_bytes: Option<f64>,
    /// CPU time of other new children, such as compilers, in seconds.
    pub child_cpu_seconds: Option<f64>,
    /// Data files opened that were not open in the window before; absent where no folder is watched.
    pub files_opened: Option<u64>,
    /// Processes that are stopped or traced.
    pub stopped: u64,
    /// Processes in uninterruptible sleep.
    pub uninterruptible: u64,
    /// Of these, the ones whose system call has not changed since the last look.
    pub same_syscall: Option<u64>,
    /// Main threads that wait in a write to stdout or stderr.
    pub stdout_blocked: Option<u64>,
}

impl Counters {
    /// What was read and written may not be seen. Page faults alone can still acquit, but a job that only reads then
    /// looks STILL, so STILL convicts nobody.
    pub fn limited(&self) -> bool {
        self.processes > 0 && (self.read_bytes.is_none() || self.written_bytes.is_none())
    }
}

/// How many looks in a row must find nobody before the processes of a run are gone.
const GONE: u32 = 2;

/// Watches the processes of one run, look by look.
#[derive(Clone, Debug)]
pub struct Watcher {
    window: Window,
    /// Who was there at the newest look.
    pids: Vec<u32>,
    /// Looks in a row that found nobody, after somebody was there.
    empty: Option<u32>,
    /// The most ranks that these processes ever had.
    most_ranks: Option<u64>,
}

/// What a look at the processes of a run says.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Nobody, and nobody was ever there: that tells nothing.
    Nobody,
    /// Nobody this time; the next look decides.
    Fewer,
    /// Those who were there are gone.
    Gone(Witnessed),
    /// They are there; and whether they worked just now, if its absence may be held against the run.
    There(Witnessed, bool),
}

impl Watcher {
    /// A watcher whose judgements cover so many seconds, in a world that runs `pace` times faster than real time.
    pub fn new(length: f64, pace: f64) -> Self {
        Self {
            window: Window::new(length, pace),
            pids: Vec::new(),
            empty: None,
            most_ranks: None,
        }
    }

    /// From here on its judgements cover so many seconds.
    pub fn covers(&mut self, length: f64) {
        self.window.covers(length);
    }

    /// Takes in a look.
    pub fn look(&mut self, at: Unix, seen: Seen) -> Found {
        if seen.counters.processes == 0 {
            return match &mut self.empty {
                None => Found::Nobody,
                Some(empty) => {
                    *empty += 1;
                    if *empty < GONE {
                        Found::Fewer
                    } else {
                        Found::Gone(Witnessed {
                            seen,
                            evidence: None,
                            most_ranks: None,
                        })
                    }
                }
            };
        }
        self.empty = Some(0);
        // What others have done before, such as ranks that are told from their launcher later, is no work of this window.
        let others = !self.pids.is_empty() && !seen.pids.is_empty();
        if others && !seen.pids.iter().any(|pid| self.pids.contains(pid)) {
            self.window.forget();
        }
        if self.window.is_anew(&seen.counters) {
            self.most_ranks = None;
        }
        self.most_ranks = self.most_ranks.max(seen.counters.named_ranks);
        self.pids.clone_from(&seen.pids);
        let evidence = self.window.look(at, seen.counters);
        let witnessed = Witnessed {
            seen,
            evidence,
            most_ranks: self.most_ranks,
        };
        // Whose silence cannot convict sets no clock: from it, silence would follow.
        let worked = self.window.worked_at() == Some(at) && witnessed.may_convict();
        Found::There(witnessed, worked)
    }
}

/// What is known of a run's processes now.
#[derive(Clone, Debug, PartialEq)]
pub struct Witnessed {
    /// The newest look.
    pub seen: Seen,
    /// What the newest window proves; absent until there is one.
    pub evidence: Option<Evidence>,
    /// The most ranks that these processes ever had; absent where no environment names them.
    pub most_ranks: Option<u64>,
}

impl Witnessed {
    /// All ranks and loader workers are stopped, traced or frozen: the run is suspended, not hung.
    pub fn suspended(&self) -> bool {
        self.seen.counters.processes > 0
            && self.seen.counters.stopped == self.seen.counters.processes
    }

    /// How many ranks have ended while others of the same start live on; absent where no environment names them.
    pub fn ranks_gone(&self) -> Option<u64> {
        let live = self.seen.counters.named_ranks?;
        Some(self.most_ranks?.saturating_sub(live))
    }

    /// Somebody uses the CPU and nothing proves life. Where reads and writes may not be seen, work that is seen counts no
    /// higher than this: a moment of it could not be told from a whole quiet window later.
    pub fn busy(&self) -> bool {
        match self.evidence {
            Some(Evidence::Busy) => true,
            Some(Evidence::Work) => !self.may_convict(),
            Some(Evidence::Still) | None => false,
        }
    }

    /// That no work is seen may be held against the run.
    pub fn may_convict(&self) -> bool {
        !self.seen.counters.limited()
    }
}

/// The rows of a run's processes; each series carries the label `run`.
pub const METRICS: &[Metric<Witnessed>] = &[
    gauge(
        "training_processes",
        "Live ranks and loader workers of the run.",
        |p| Some(p.seen.counters.processes as f64),
    ),
    gauge(
        "training_ranks",
        "Live ranks of the run, as their environment names them. Absent where it names none.",
        |p| p.seen.counters.named_ranks.map(|n| n as f64),
    ),
    gauge(
        "training_ranks_gone",
        "Ranks that have ended while others of the same start live on. Absent where training_ranks is.",
        |p| p.ranks_gone().map(|n| n as f64),
    ),
    gauges(
        "training_processes_in_state",
        "Of these, the ones that are stopped, in uninterruptible sleep, or waiting in a write to stdout or stderr.",
        &["state"],
        |p, out| {
            let counters = &p.seen.counters;
            out.add(["stopped"], counters.stopped as f64);
            out.add(["uninterruptible"], counters.uninterruptible as f64);
            if let Some(blocked) = counters.stdout_blocked {
                out.add(["stdout_blocked"], blocked as f64);
            }
        },
    ),
    gauge(
        "training_busy",
        "1 if the run's threads use the CPU without any work that proves life: computing, or spinning. Absent until a whole window was seen.",
        |p| p.evidence.map(|_| f64::from(u8::from(p.busy()))),
    ),
    gauge(
        "training_run_suspended",
        "1 if all processes of the run are stopped, traced or frozen: its clocks stand still.",
        |p| Some(f64::from(u8::from(p.suspended()))),
    ),
    counter(
        "training_process_cpu_seconds_total",
        "CPU time of the main threads of ranks and loader workers.",
        |p| Some(p.seen.counters.main_cpu_seconds),
    ),
    counter(
        "training_process_read_bytes_total",
        "Bytes that these threads got from read calls. Absent without the permission to see it.",
        |p| p.seen.counters.read_bytes,
    ),
    counter(
        "training_process_written_bytes_total",
        "Bytes that these threads gave to write calls. Absent without the permission to see it.",
        |p| p.seen.counters.written_bytes,
    ),
    counter(
        "training_process_page_faults_total",
        "Page faults of these threads, minor and major.",
        |p| Some(p.seen.counters.page_faults),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_done_is_no_work_of_this_window() {
        let look = |pid, read_bytes| Seen {
            pids: vec![pid],
            ranks: None,
            counters: Counters {
                processes: 1,
                read_bytes: Some(read_bytes),
                written_bytes: Some(0.0),
                ..Counters::default()
            },
        };
        let mut watcher = Watcher::new(10.0, 1.0);
        watcher.look(0.0, look(1, 0.0));
        // The launcher was taken for the job; its rank has read a lot, long ago.
        let looks = [5.0, 10.0, 16.0].map(|at| watcher.look(at, look(2, 1e9)));
        let evidence = looks.map(|found| {
            let Found::There(witnessed, worked) = found else {
                panic!("{found:?}");
            };
            (witnessed.evidence, worked)
        });
        let still = (Some(Evidence::Still), false);
        assert_eq!(evidence, [(None, false), (None, false), still]);
    }
}
