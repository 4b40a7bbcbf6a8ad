use super::*;

/// A run in training for which everything is well: progress a second ago, work a second ago, four GPUs at work.
fn healthy() -> Facts {
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

fn late(age: f64) -> Option<Silence> {
    Some(Silence {
        age,
        ceiling: 300.0,
    })
}

fn still(age: f64) -> Option<Silence> {
    Some(Silence {
        age,
        ceiling: 180.0,
    })
}

const IDLE: GpuCount = GpuCount {
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
const NONE: GpuCount = GpuCount {
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
            Facts {
                ended: Some(Ended::Finished),
                processes: None,
                ..train.clone()
            },
            Verdict::Finished,
        ),
        (
            "2 cancelled",
            Facts {
                ended: Some(Ended::Cancelled),
                processes: Some(0),
                ..train.clone()
            },
            Verdict::Cancelled,
        ),
        (
            "2 preempted",
            Facts {
                ended: Some(Ended::Preempted),
                processes: None,
                ..train.clone()
            },
            Verdict::Preempted,
        ),
        (
            "3 failed",
            Facts {
                ended: Some(Ended::OutOfMemory),
                ..train.clone()
            },
            Verdict::Failed,
        ),
        (
            "4 vanished",
            Facts {
                ended: Some(Ended::Vanished),
                processes: Some(0),
                ..train.clone()
            },
            Verdict::Vanished,
        ),
        (
            "5 closing",
            Facts {
                ended: Some(Ended::Finished),
                ..train.clone()
            },
            Verdict::Closing,
        ),
        (
            "6 not enrolled",
            Facts {
                enrolled: false,
                ..hung.clone()
            },
            Verdict::NotJudged,
        ),
        (
            "6 unknown",
            Facts {
                phase: Phase::Unknown,
                ..hung.clone()
            },
            Verdict::NotJudged,
        ),
        (
            "7 blind",
            Facts {
                log_up: false,
                ..hung.clone()
            },
            Verdict::Blind,
        ),
        (
            "8 suspended",
            Facts {
                suspended: true,
                stopped: 4,
                ..hung.clone()
            },
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
            Facts {
                progress: late(299.0),
                work: None,
                may_convict: false,
                ..unseen.clone()
            },
            Verdict::ValidationIdle,
        ),
        ("10 training", train.clone(), Verdict::Training),
        (
            "10 training, quiet but not late",
            Facts {
                work: still(200.0),
                ..train.clone()
            },
            Verdict::Training,
        ),
        (
            "10 validating",
            Facts {
                gpus: WORK,
                ..validation.clone()
            },
            Verdict::Validating,
        ),
        (
            "10 validating without GPUs",
            Facts {
                gpus: NONE,
                ..validation.clone()
            },
            Verdict::Validating,
        ),
        (
            "10 metrics after a full bar",
            Facts {
                busy: true,
                work: still(2400.0),
                ..unseen.clone()
            },
            Verdict::ValidationIdle,
        ),
        (
            "10 checkpoint",
            Facts {
                phase: Phase::Checkpoint,
                ..train.clone()
            },
            Verdict::Checkpointing,
        ),
        (
            "10 init",
            Facts {
                phase: Phase::Init,
                ..train.clone()
            },
            Verdict::Starting,
        ),
        (
            "11 one rank stopped",
            Facts {
                stopped: 1,
                ..hung.clone()
            },
            Verdict::LostRank,
        ),
        (
            "11 one rank stopped, not late yet",
            Facts {
                stopped: 1,
                ..train.clone()
            },
            Verdict::Training,
        ),
        (
            "11 one rank gone, the others spin",
            Facts {
                gone: 1,
                busy: true,
                gpus: SPIN,
                ..hung.clone()
            },
            Verdict::LostRank,
        ),
        (
            "11 but not while the others work: it may have done its part",
            Facts {
                gone: 1,
                work: still(1.0),
                ..hung.clone()
            },
            Verdict::Slow,
        ),
        (
            "12 others spin for one that works",
            Facts {
                progress: late(301.0),
                gpus: ONE_WORKS,
                ..train.clone()
            },
            Verdict::Waiting,
        ),
        ("13 hung in training", hung.clone(), Verdict::Hung),
        (
            "13 hung, spinning",
            Facts {
                gpus: SPIN,
                ..hung.clone()
            },
            Verdict::Hung,
        ),
        (
            "13 hung on the CPU",
            Facts {
                gpus: NONE,
                ..hung.clone()
            },
            Verdict::Hung,
        ),
        (
            "13 hung in validation",
            Facts {
                progress: late(301.0),
                work: still(301.0),
                ..validation.clone()
            },
            Verdict::Hung,
        ),
        (
            "13 hung in an unseen validation",
            Facts {
                work: still(200.0),
                ..unseen.clone()
            },
            Verdict::Hung,
        ),
        (
            "13 but silence of the phase before does not count",
            Facts {
                progress: late(100.0),
                work: still(800.0),
                ..unseen.clone()
            },
            Verdict::ValidationIdle,
        ),
        (
            "13 late but at work",
            Facts {
                work: still(179.0),
                ..hung.clone()
            },
            Verdict::Slow,
        ),
        (
            "14 late, GPUs work",
            Facts {
                progress: late(3600.0),
                gpus: WORK,
                ..train.clone()
            },
            Verdict::Slow,
        ),
        (
            "14 beyond its patience",
            Facts {
                progress: late(3601.0),
                gpus: WORK,
                ..train.clone()
            },
            Verdict::Hung,
        ),
        (
            "15 an endless retry",
            Facts {
                progress: late(3601.0),
                work: still(1.0),
                ..hung.clone()
            },
            Verdict::Hung,
        ),
        (
            "15 in a checkpoint nobody is woken",
            Facts {
                phase: Phase::Checkpoint,
                progress: late(1e6),
                work: still(1.0),
                ..hung.clone()
            },
            Verdict::Slow,
        ),
        (
            "16 busy",
            Facts {
                busy: true,
                progress: late(900.0),
                ..hung.clone()
            },
            Verdict::Unproven,
        ),
        (
            "16 busy for three ceilings",
            Facts {
                busy: true,
                progress: late(901.0),
                ..hung.clone()
            },
            Verdict::Hung,
        ),
        (
            "16 all spin",
            Facts {
                busy: true,
                gpus: SPIN,
                ..hung.clone()
            },
            Verdict::Hung,
        ),
        (
            "17 training, GPUs stand still",
            no_witness.clone(),
            Verdict::Hung,
        ),
        (
            "17 training, GPUs unknown",
            Facts {
                gpus: NONE,
                ..no_witness.clone()
            },
            Verdict::Unproven,
        ),
        (
            "17 training, GPUs unknown, for an hour",
            Facts {
                gpus: NONE,
                progress: late(3601.0),
                ..no_witness.clone()
            },
            Verdict::Hung,
        ),
        (
            "17 checkpoint",
            Facts {
                phase: Phase::Checkpoint,
                ..no_witness.clone()
            },
            Verdict::Unproven,
        ),
        (
            "17 checkpoint, for two hours",
            Facts {
                phase: Phase::Checkpoint,
                progress: late(7201.0),
                ..no_witness.clone()
            },
            Verdict::Hung,
        ),
        (
            "17 unseen past its overrun limit",
            Facts {
                work: None,
                may_convict: false,
                ..unseen.clone()
            },
            Verdict::Hung,
        ),
        (
            "17 idle GPUs alone convict nobody in a validation",
            Facts {
                phase: Phase::Validation,
                work: still(301.0),
                may_convict: false,
                ..hung.clone()
            },
            Verdict::Unproven,
        ),
    ] {
        assert_eq!(judge(&facts), verdict, "{row}: {facts:?}");
    }
}

#[test]
fn the_reason_names_the_witnesses() {
    let hung = Facts {
        progress: late(645.0),
        work: still(640.0),
        gpus: IDLE,
        ..healthy()
    };
    assert_eq!(
        because(&hung),
        "last progress 10 min 45 s ago, over the ceiling of 5 min 00 s; \
         no work by any process or GPU for 10 min 40 s (allowed: 3 min 00 s); 4 of 4 GPUs idle"
    );
    let blind = Facts {
        work: None,
        may_convict: false,
        processes: None,
        gpus: NONE,
        ..healthy()
    };
    assert_eq!(
        because(&blind),
        "last progress 1.0 s ago, under the ceiling of 5 min 00 s; its processes cannot be seen"
    );
}

#[test]
fn lengths_of_time_as_people_say_them() {
    for (seconds, text) in [
        (0.04, "0.0 s"),
        (9.96, "10 s"),
        (119.4, "119 s"),
        (125.0, "2 min 05 s"),
        (7265.0, "2 h 01 min"),
    ] {
        assert_eq!(Seconds(seconds).to_string(), text);
    }
}
