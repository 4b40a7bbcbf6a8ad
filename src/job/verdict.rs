//! What the four witnesses together say about a run: the contract's table (design, section 3), first row that fits.
//!
//! Pure: plain facts in, one word and its reason out. This is the node's verdict, for the status page and `diagnose`;
//! the alert rules say the same for the whole fleet, from the same facts as series (`fleet` folds those of its nodes).

pub mod fleet;
pub mod reason;

use super::observation::Ended;
use super::{Phase, Unix};

/// How long something has stood still, and how long it may.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Silence {
    /// Seconds since it last moved.
    pub age: f64,
    /// Seconds that are still healthy.
    pub ceiling: f64,
}

impl Silence {
    /// The silence since `last`; absent if either is unknown.
    pub fn since(last: Option<Unix>, ceiling: Option<f64>, now: Unix) -> Option<Self> {
        Some(Self {
            age: (now - last?).max(0.0),
            ceiling: ceiling?,
        })
    }

    fn over(self) -> bool {
        self.age > self.ceiling
    }
}

/// How many GPUs of the run are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuCount {
    /// Neither busy nor drawing power.
    pub idle: usize,
    /// Drawing what they draw while the run advances.
    pub working: usize,
    /// Busy, near idle power: a collective waits.
    pub spinning: usize,
    /// None of these can be said.
    pub unknown: usize,
}

impl GpuCount {
    /// All GPUs of the run.
    pub fn all(self) -> usize {
        self.idle + self.working + self.spinning + self.unknown
    }

    fn all_idle(self) -> bool {
        self.idle > 0 && self.idle == self.all()
    }

    fn all_spin(self) -> bool {
        self.spinning > 0 && self.spinning == self.all()
    }

    fn stand_still(self) -> bool {
        self.all() > 0 && self.idle + self.spinning == self.all()
    }
}

/// All that the table looks at.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The phase.
    pub phase: Phase,
    /// Why the run is over.
    pub ended: Option<Ended>,
    /// Its live processes; absent without that witness.
    pub processes: Option<u64>,
    /// Of these, stopped ones.
    pub stopped: u64,
    /// Ranks that have ended while others live on.
    pub gone: u64,
    /// It can be judged at all.
    pub enrolled: bool,
    /// Its log can be read.
    pub log_up: bool,
    /// All its processes are stopped, traced or frozen.
    pub suspended: bool,
    /// Clock P.
    pub progress: Option<Silence>,
    /// Clock Q: processes and GPUs together; absent while no work was ever seen.
    pub work: Option<Silence>,
    /// Clock Q's ceiling, also while no work was ever seen; absent when the run is over.
    pub quiet_ceiling: Option<f64>,
    /// The processes have shown work in this kind of phase, so that their silence proves something.
    pub may_convict: bool,
    /// Its processes compute or spin, which proves nothing.
    pub busy: bool,
    /// A validation whose numbers say nothing.
    pub unseen: bool,
    /// Its GPUs.
    pub gpus: GpuCount,
    /// How long it may stand still where nothing proves a hang, in seconds.
    pub endurance: f64,
}

/// The verdict's word, as in `run:training_verdict:info{verdict}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each word's meaning stands in `Verdict::meaning`"
)]
pub enum Verdict {
    Finished,
    Cancelled,
    Preempted,
    Failed,
    Vanished,
    Closing,
    NotJudged,
    Blind,
    Suspended,
    ValidationIdle,
    Training,
    Validating,
    Checkpointing,
    Starting,
    LostRank,
    Waiting,
    Hung,
    Slow,
    Unproven,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Finished,
        Self::Cancelled,
        Self::Preempted,
        Self::Failed,
        Self::Vanished,
        Self::Closing,
        Self::NotJudged,
        Self::Blind,
        Self::Suspended,
        Self::ValidationIdle,
        Self::Training,
        Self::Validating,
        Self::Checkpointing,
        Self::Starting,
        Self::LostRank,
        Self::Waiting,
        Self::Hung,
        Self::Slow,
        Self::Unproven,
    ];

    /// The verdict with this label value.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// The label value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Cancelled => "cancelled",
            Self::Preempted => "preempted",
            Self::Failed => "failed",
            Self::Vanished => "vanished",
            Self::Closing => "closing",
            Self::NotJudged => "not_judged",
            Self::Blind => "blind",
            Self::Suspended => "suspended",
            Self::ValidationIdle => "validation_idle",
            Self::Training => "training",
            Self::Validating => "validating",
            Self::Checkpointing => "checkpointing",
            Self::Starting => "starting",
            Self::LostRank => "lost_rank",
            Self::Waiting => "waiting",
            Self::Hung => "hung",
            Self::Slow => "slow",
            Self::Unproven => "unproven",
        }
    }

    /// The word for people.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Finished => "Finished",
            Self::Cancelled => "Cancelled",
            Self::Preempted => "Preempted",
            Self::Failed => "Failed",
            Self::Vanished => "Gone without a word",
            Self::Closing => "Finished, but its processes live on",
            Self::NotJudged => "Not judged",
            Self::Blind => "Blind: its log cannot be read",
            Self::Suspended => "Suspended",
            Self::ValidationIdle => "Validating, GPUs idle as expected",
            Self::Training => "Training",
            Self::Validating => "Validating",
            Self::Checkpointing => "Writing a checkpoint",
            Self::Starting => "Starting",
            Self::LostRank => "Hung: a rank is stopped or gone",
            Self::Waiting => "Waiting for a straggler",
            Self::Hung => "Hung",
            Self::Slow => "Slow, or its log is buffered",
            Self::Unproven => "Late, and nothing proves why",
        }
    }

    /// How loudly this is shown: `critical`, `warning`, `ok`, or `unknown` for a run that is not judged.
    pub const fn level(self) -> &'static str {
        if self.critical() {
            "critical"
        } else if self.warning() {
            "warning"
        } else if matches!(self, Self::NotJudged) {
            "unknown"
        } else {
            "ok"
        }
    }

    /// Somebody should act now.
    pub const fn critical(self) -> bool {
        matches!(self, Self::Hung | Self::LostRank | Self::Failed)
    }

    /// Somebody should look.
    pub const fn warning(self) -> bool {
        matches!(
            self,
            Self::Vanished
                | Self::Blind
                | Self::Suspended
                | Self::Waiting
                | Self::Slow
                | Self::Unproven
        )
    }
}

/// The first row of the table that fits.
pub fn judge(facts: &Facts) -> Verdict {
    let Facts { phase, gpus, .. } = *facts;
    if let Some(reason) = facts.ended {
        return over(reason, facts.processes);
    }
    if !facts.enrolled || !phase.live() {
        return Verdict::NotJudged;
    }
    if !facts.log_up {
        return Verdict::Blind;
    }
    if facts.suspended {
        return Verdict::Suspended;
    }
    let Some(progress) = facts.progress.filter(|_| overdue(facts)) else {
        return match phase {
            Phase::Validation if gpus.all_idle() => Verdict::ValidationIdle,
            Phase::Validation => Verdict::Validating,
            Phase::Train => Verdict::Training,
            Phase::Checkpoint => Verdict::Checkpointing,
            Phase::Init | Phase::Finished | Phase::Failed | Phase::Unknown => Verdict::Starting,
        };
    };
    let working = working(facts);
    // A rank that has ended may have done its part: only while nobody works is it missed.
    if facts.stopped > 0 || facts.gone > 0 && !working {
        Verdict::LostRank
    } else if gpus.spinning > 0 && !gpus.all_spin() && working {
        Verdict::Waiting
    } else if quiet(facts) || patience(facts).is_some_and(|patience| progress.age > patience) {
        Verdict::Hung
    } else if working {
        Verdict::Slow
    } else {
        Verdict::Unproven
    }
}

/// Work is seen: a GPU works, or somebody worked within the quiet ceiling.
fn working(facts: &Facts) -> bool {
    facts.gpus.working > 0 || facts.work.is_some_and(|work| !work.over())
}

/// Q is over its ceiling, by a witness that may convict, and nobody works or is busy.
fn quiet(facts: &Facts) -> bool {
    facts.may_convict && facts.work.is_some_and(Silence::over) && !working(facts) && !facts.busy
}

/// Past rows 9 and 10: LATE, or UNSEEN and QUIET. An unseen validation is given a whole quiet ceiling of its own:
/// silence that the phase before left behind does not count.
fn overdue(facts: &Facts) -> bool {
    let Some(progress) = facts.progress else {
        return false;
    };
    let late = progress.over() && !(facts.unseen && (working(facts) || facts.busy));
    let unseen_and_quiet =
        facts.unseen && quiet(facts) && facts.work.is_some_and(|work| progress.age > work.ceiling);
    late || unseen_and_quiet
}

/// Rows 14 to 17: how long progress may be absent where nobody is QUIET, so where a hang is not proven; absent is for
/// ever.
fn patience(facts: &Facts) -> Option<f64> {
    let ceiling = facts.progress?.ceiling;
    let long = facts.endurance.max(ceiling);
    let train = facts.phase == Phase::Train;
    let gpus = facts.gpus;
    if working(facts) {
        return train.then_some(long);
    }
    Some(match facts.busy {
        // A collective that never ends.
        true if gpus.all_spin() => ceiling,
        true => 3.0 * ceiling,
        false if train && gpus.stand_still() => ceiling,
        // The ceiling of an unseen validation is its overrun limit already.
        false if facts.unseen => ceiling,
        false => long,
    })
}

fn over(reason: Ended, processes: Option<u64>) -> Verdict {
    match reason {
        Ended::Finished | Ended::Cancelled | Ended::Preempted
            if processes.is_some_and(|n| n > 0) =>
        {
            Verdict::Closing
        }
        Ended::Finished => Verdict::Finished,
        Ended::Cancelled => Verdict::Cancelled,
        Ended::Preempted => Verdict::Preempted,
        Ended::Error | Ended::OutOfMemory | Ended::Killed => Verdict::Failed,
        Ended::Vanished => Verdict::Vanished,
    }
}

#[cfg(test)]
mod tests;
