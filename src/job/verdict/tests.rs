use super::*;

/// The same facts, but for this.
fn with(facts: &Facts, but: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = facts.clone();
    but(&mut facts);
    facts
}

/// A run in training for which everything is well: progress a second ago, work a second ago, four GPUs at work.
pub(super) fn healthy() -> Facts {
    Facts {
        phase: Phase::Train,
        ended: None,
        processes: Some(4),
        stopped: 0,
        gone: 0,
        enrolled: true,
        log_up: true,
        suspended: false,
        progress: Some(Silence {
            age: 1.0,
            ceiling: 300.0,
        }),
        work: Some(Silence {
            age: 1.0,
            ceiling: 180.0,
        }),
        quiet_ceiling: Some(180.0),
        may_convict: true,
        busy: false,
        unseen: false,
        gpus: GpuCount {
            working: 4,
            ..GpuCount::default()
        },
        endurance: 3600.0,
    }
}

pub(super) fn late(age: f64) -> Option<Silence> {
    Some(Silence {
        age,
        ceiling: 300.0,
    })
}

pub(super) fn still(age: f64) -> Option<Silence> {
    Some(Silence {
        age,
        ceiling: 180.0,
    })
}

pub(super) const IDLE: GpuCount = GpuCount {
    idle: 4,
    working: 0,
    spinning: 0,
    unknown: 0,
};
const SPIN: GpuCount = GpuCount {
    idle: 0,
    working: 0,
    spinning: 4,
    unknown: 0,
};
const WORK: GpuCount = GpuCount {
    idle: 0,
    working: 4,
    spinning: 0,
    unknown: 0,
};
pub(super) const NONE: GpuCount = GpuCount {
    idle: 0,
    working: 0,
    spinning: 0,
    unknown: 0,
};
const ONE_WORKS: GpuCount = GpuCount {
    idle: 0,
    working: 1,
    spinning: 3,
    unknown: 0,
};

/// Every row of the table, and what stands next to it: the same with one fact changed.
#[test]
fn the_table() {
    let train = healthy();
    let validation = Facts {
        phase: Phase::Validation,
        gpus: IDLE,
        ..healthy()
    };
    let hung = Facts {
        progress: late(301.0),
        work: still(301.0),
        gpus: IDLE,
        ..healthy()
    };
    let unseen = Facts {
        unseen: true,
        progress: late(5000.0),
        ..validation.clone()
    };
    let no_witness = Facts {
        work: None,
        may_convict: false,
        processes: None,
        ..hung.clone()
    };
    for (row, facts, verdict) in [
        (
            "2 finished",
            with(&train, |f| {
                f.ended = Some(Ended::Finished);
                f.processes = None;
            }),
            Verdict::Finished,
        ),
        (
            "2 cancelled",
            with(&train, |f| {
                f.ended = Some(Ended::Cancelled);
                f.processes = Some(0);
            }),
            Verdict::Cancelled,
        ),
        (
            "2 preempted",
            with(&train, |f| {
                f.ended = Some(Ended::Preempted);
                f.processes = None;
            }),
            Verdict::Preempted,
        ),
        (
            "3 failed",
            with(&train, |f| f.ended = Some(Ended::OutOfMemory)),
            Verdict::Failed,
        ),
        (
            "4 vanished",
            with(&train, |f| {
                f.ended = Some(Ended::Vanished);
                f.processes = Some(0);
            }),
            Verdict::Vanished,
        ),
        (
            "5 closing",
            with(&train, |f| f.ended = Some(Ended::Finished)),
            Verdict::Closing,
        ),
        (
            "6 not enrolled",
            with(&hung, |f| f.enrolled = false),
            Verdict::NotJudged,
        ),
        (
            "6 unknown",
            with(&hung, |f| f.phase = Phase::Unknown),
            Verdict::NotJudged,
        ),
        ("7 blind", with(&hung, |f| f.log_up = false), Verdict::Blind),
        (
            "8 suspended",
            with(&hung, |f| {
                f.suspended = true;
                f.stopped = 4;
            }),
            Verdict::Suspended,
        ),
        (
            "9 validation idle",
            validation.clone(),
            Verdict::ValidationIdle,
        ),
        (
            "9 unseen, at work for hours",
            unseen.clone(),
            Verdict::ValidationIdle,
        ),
        (
            "9 unseen, no witness, under the overrun limit",
            with(&unseen, |f| {
                f.progress = late(299.0);
                f.work = None;
                f.may_convict = false;
            }),
            Verdict::ValidationIdle,
        ),
        ("10 training", train.clone(), Verdict::Training),
        (
            "10 training, quiet but not late",
            with(&train, |f| f.work = still(200.0)),
            Verdict::Training,
        ),
        (
            "10 validating",
            with(&validation, |f| f.gpus = WORK),
            Verdict::Validating,
        ),
        (
            "10 validating without GPUs",
            with(&validation, |f| f.gpus = NONE),
            Verdict::Validating,
        ),
        (
            "10 metrics after a full bar",
            with(&unseen, |f| {
                f.busy = true;
                f.work = still(2400.0);
            }),
            Verdict::ValidationIdle,
        ),
        (
            "10 checkpoint",
            with(&train, |f| f.phase = Phase::Checkpoint),
            Verdict::Checkpointing,
        ),
        (
            "10 init",
            with(&train, |f| f.phase = Phase::Init),
            Verdict::Starting,
        ),
        (
            "11 one rank stopped",
            with(&hung, |f| f.stopped = 1),
            Verdict::LostRank,
        ),
        (
            "11 one rank stopped, not late yet",
            with(&train, |f| f.stopped = 1),
            Verdict::Training,
        ),
        (
            "11 one rank gone, the others spin",
            with(&hung, |f| {
                f.gone = 1;
                f.busy = true;
                f.gpus = SPIN;
            }),
            Verdict::LostRank,
        ),
        (
            "11 but not while the others work: it may have done its part",
            with(&hung, |f| {
                f.gone = 1;
                f.work = still(1.0);
            }),
            Verdict::Slow,
        ),
        (
            "12 others spin for one that works",
            with(&train, |f| {
                f.progress = late(301.0);
                f.gpus = ONE_WORKS;
            }),
            Verdict::Waiting,
        ),
        ("13 hung in training", hung.clone(), Verdict::Hung),
        (
            "13 hung, spinning",
            with(&hung, |f| f.gpus = SPIN),
            Verdict::Hung,
        ),
        (
            "13 hung on the CPU",
            with(&hung, |f| f.gpus = NONE),
            Verdict::Hung,
        ),
        (
            "13 hung in validation",
            with(&validation, |f| {
                f.progress = late(301.0);
                f.work = still(301.0);
            }),
            Verdict::Hung,
        ),
        (
            "13 hung in an unseen validation",
            with(&unseen, |f| f.work = still(200.0)),
            Verdict::Hung,
        ),
        (
            "13 but silence of the phase before does not count",
            with(&unseen, |f| {
                f.progress = late(100.0);
                f.work = still(800.0);
            }),
            Verdict::ValidationIdle,
        ),
        (
            "13 late but at work",
            with(&hung, |f| f.work = still(179.0)),
            Verdict::Slow,
        ),
        (
            "14 late, GPUs work",
            with(&train, |f| {
                f.progress = late(3600.0);
                f.gpus = WORK;
            }),
            Verdict::Slow,
        ),
        (
            "14 beyond its patience",
            with(&train, |f| {
                f.progress = late(3601.0);
                f.gpus = WORK;
            }),
            Verdict::Hung,
        ),
        (
            "15 an endless retry",
            with(&hung, |f| {
                f.progress = late(3601.0);
                f.work = still(1.0);
            }),
            Verdict::Hung,
        ),
        (
            "15 in a checkpoint nobody is woken",
            with(&hung, |f| {
                f.phase = Phase::Checkpoint;
                f.progress = late(1e6);
                f.work = still(1.0);
            }),
            Verdict::Slow,
        ),
        (
            "16 busy",
            with(&hung, |f| {
                f.busy = true;
                f.progress = late(900.0);
            }),
            Verdict::Unproven,
        ),
        (
            "16 busy for three ceilings",
            with(&hung, |f| {
                f.busy = true;
                f.progress = late(901.0);
            }),
            Verdict::Hung,
        ),
        (
            "16 all spin",
            with(&hung, |f| {
                f.busy = true;
                f.gpus = SPIN;
            }),
            Verdict::Hung,
        ),
        (
            "17 training, GPUs stand still",
            no_witness.clone(),
            Verdict::Hung,
        ),
        (
            "17 training, GPUs unknown",
            with(&no_witness, |f| f.gpus = NONE),
            Verdict::Unproven,
        ),
        (
            "17 training, GPUs unknown, for an hour",
            with(&no_witness, |f| {
                f.gpus = NONE;
                f.progress = late(3601.0);
            }),
            Verdict::Hung,
        ),
        (
            "17 checkpoint",
            with(&no_witness, |f| f.phase = Phase::Checkpoint),
            Verdict::Unproven,
        ),
        (
            "17 checkpoint, for two hours",
            with(&no_witness, |f| {
                f.phase = Phase::Checkpoint;
                f.progress = late(7201.0);
            }),
            Verdict::Hung,
        ),
        (
            "17 unseen past its overrun limit",
            with(&unseen, |f| {
                f.work = None;
                f.may_convict = false;
            }),
            Verdict::Hung,
        ),
        (
            "17 idle GPUs alone convict nobody in a validation",
            with(&hung, |f| {
                f.phase = Phase::Validation;
                f.work = still(301.0);
                f.may_convict = false;
            }),
            Verdict::Unproven,
        ),
    ] {
        assert_eq!(judge(&facts), verdict, "{row}: {facts:?}");
    }
}
