//! A run over several nodes: the facts of its nodes, folded into those of the whole, as the recording rules fold series.
//!
//! The newest progress or work of any node counts, and the most patient ceiling. What one node knows the run knows; what
//! is stopped or gone on one node while others live is lost.

use super::{Facts, GpuCount, Silence, Verdict};
use crate::job::Phase;
use crate::job::observation::Ended;

/// Where nodes differ, the first of these phases that one of them is in.
const PHASES: [Phase; Phase::COUNT] = [
    Phase::Validation,
    Phase::Train,
    Phase::Checkpoint,
    Phase::Init,
    Phase::Finished,
    Phase::Failed,
    Phase::Unknown,
];
/// Where nodes differ in why the run is over, the first of these words: the kinder one.
const REASONS: [Ended; 7] = [
    Ended::Finished,
    Ended::Cancelled,
    Ended::Preempted,
    Ended::Error,
    Ended::OutOfMemory,
    Ended::Killed,
    Ended::Vanished,
];

/// The first row of the table, which no node alone can tell: fewer nodes report than the run has.
pub const NODE_MISSING: &str = "node_missing";

/// Every word of `run:training_verdict:info`.
pub fn words() -> impl Iterator<Item = &'static str> {
    [NODE_MISSING]
        .into_iter()
        .chain(Verdict::ALL.map(Verdict::name))
}

impl Facts {
    /// What is true of a run as a whole; absent without any node.
    pub fn merged(nodes: &[Self]) -> Option<Self> {
        if nodes.is_empty() {
            return None;
        }
        let any = |holds: fn(&Self) -> bool| nodes.iter().any(holds);
        let most = |of: fn(&Self) -> f64| nodes.iter().map(of).fold(0.0, f64::max);
        let processes = nodes.iter().filter_map(|node| node.processes);
        let alive = |node: &Self| node.processes.is_some_and(|n| n > 0);
        let lost = |node: &&Self| {
            node.stopped > 0
                || node.suspended
                || node.ended.is_some()
                || node.processes == Some(0) && nodes.iter().any(alive)
        };
        let validates = |node: &&Self| node.phase == Phase::Validation;
        let ceilings = nodes.iter().filter_map(|node| node.quiet_ceiling);
        let quiet_ceiling = ceilings.reduce(f64::max);
        let mut seen = nodes
            .iter()
            .filter(|node| node.processes.is_some())
            .peekable();
        Some(Self {
            phase: PHASES
                .into_iter()
                .find(|phase| nodes.iter().any(|node| node.phase == *phase))
                .unwrap_or_default(),
            ended: REASONS
                .into_iter()
                .find(|reason| nodes.iter().any(|node| node.ended == Some(*reason))),
            processes: processes.reduce(|a, b| a + b),
            stopped: nodes.iter().filter(lost).count() as u64,
            gone: nodes.iter().map(|node| node.gone).sum(),
            enrolled: any(|node| node.enrolled),
            log_up: any(|node| node.log_up),
            suspended: seen.peek().is_some() && seen.all(|node| node.suspended),
            progress: shortest(nodes.iter().filter_map(|node| node.progress)),
            // The ceiling of a node that never saw work counts as well.
            work: shortest(nodes.iter().filter_map(|node| node.work))
                .zip(quiet_ceiling)
                .map(|(Silence { age, .. }, ceiling)| Silence { age, ceiling }),
            quiet_ceiling,
            may_convict: any(|node| node.may_convict),
            busy: any(|node| node.busy),
            unseen: nodes.iter().filter(validates).any(|node| node.unseen)
                && nodes.iter().filter(validates).all(|node| node.unseen),
            gpus: nodes
                .iter()
                .fold(GpuCount::default(), |sum, node| sum.with(node.gpus)),
            endurance: most(|node| node.endurance),
        })
    }
}

/// The shortest silence, against the largest ceiling.
fn shortest(silences: impl Iterator<Item = Silence>) -> Option<Silence> {
    silences.reduce(|a, b| Silence {
        age: a.age.min(b.age),
        ceiling: a.ceiling.max(b.ceiling),
    })
}

impl GpuCount {
    fn with(self, other: Self) -> Self {
        Self {
            idle: self.idle + other.idle,
            working: self.working + other.working,
            spinning: self.spinning + other.spinning,
            unknown: self.unknown + other.unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::*;

    /// A node with the run's log, in training; its ranks worked `worked` seconds ago.
    fn node(phase: Phase, progress: Option<f64>, worked: Option<f64>) -> Facts {
        let against = |ceiling| move |age| Silence { age, ceiling };
        Facts {
            phase,
            ended: None,
            processes: Some(4),
            stopped: 0,
            gone: 0,
            enrolled: phase != Phase::Unknown,
            log_up: phase != Phase::Unknown,
            suspended: false,
            progress: progress.map(against(300.0)),
            work: worked.map(against(180.0)),
            quiet_ceiling: Some(180.0),
            may_convict: worked.is_some(),
            busy: false,
            unseen: false,
            gpus: GpuCount::default(),
            endurance: 3600.0,
        }
    }

    fn word(nodes: &[Facts]) -> Verdict {
        judge(&Facts::merged(nodes).expect("a node"))
    }

    #[test]
    fn a_node_without_the_log_acquits_and_convicts_with_the_one_that_has_it() {
        let log = |worked| node(Phase::Train, Some(400.0), Some(worked));
        let other = |worked| node(Phase::Unknown, None, Some(worked));
        assert_eq!(word(&[log(400.0), other(10.0)]), Verdict::Slow);
        assert_eq!(word(&[log(400.0), other(400.0)]), Verdict::Hung);
        assert_eq!(Facts::merged(&[]), None);
    }

    #[test]
    fn the_most_patient_ceiling_counts_even_of_a_node_that_never_saw_work() {
        let log = node(Phase::Train, Some(400.0), Some(200.0));
        let fresh = Facts {
            quiet_ceiling: Some(300.0),
            ..node(Phase::Unknown, None, None)
        };
        assert_eq!(word(std::slice::from_ref(&log)), Verdict::Hung);
        assert_eq!(word(&[log, fresh]), Verdict::Slow);
    }

    #[test]
    fn what_is_stopped_or_gone_on_one_node_is_lost_and_on_all_it_is_not() {
        let log = node(Phase::Train, Some(400.0), Some(400.0));
        let frozen = Facts {
            stopped: 4,
            suspended: true,
            ..node(Phase::Unknown, None, None)
        };
        let gone = Facts {
            processes: Some(0),
            ..node(Phase::Unknown, None, None)
        };
        assert_eq!(word(&[log.clone(), frozen.clone()]), Verdict::LostRank);
        assert_eq!(word(&[log.clone(), gone]), Verdict::LostRank);
        let all = Facts {
            stopped: 4,
            suspended: true,
            ..log
        };
        assert_eq!(word(&[all, frozen]), Verdict::Suspended);
    }

    #[test]
    fn an_end_that_one_node_tells_is_the_runs() {
        let ended = |reason: Ended| Facts {
            ended: Some(reason),
            ..node(reason.phase(), Some(1.0), None)
        };
        let rest = Facts {
            processes: Some(0),
            ..node(Phase::Unknown, None, None)
        };
        let over = |reason| Facts {
            processes: Some(0),
            ..ended(reason)
        };
        assert_eq!(
            word(&[ended(Ended::Finished), rest.clone()]),
            Verdict::Closing
        );
        assert_eq!(word(&[over(Ended::Finished), rest]), Verdict::Finished);
        assert_eq!(
            word(&[over(Ended::Vanished), over(Ended::Error)]),
            Verdict::Failed
        );
    }
}
