use super::super::tests::{fold, step};
use super::*;
use crate::job::observation::Observation as O;

#[test]
fn a_witness_convicts_only_where_it_has_acquitted() {
    let mut job = fold([O::Phase(Phase::Train)]);
    assert_eq!(job.last_work(), None);
    job.worked(110.0);
    assert_eq!(job.last_work(), Some(110.0));
    job.apply(O::Phase(Phase::Checkpoint), 120.0);
    assert_eq!(job.last_work(), None, "never seen to work in a checkpoint");
    job.apply(O::Phase(Phase::Validation), 130.0);
    assert_eq!(
        job.last_work(),
        Some(110.0),
        "the first validation counts what the run has shown"
    );
    job.apply(O::Phase(Phase::Train), 140.0);
    job.apply(O::Phase(Phase::Validation), 150.0);
    assert_eq!(
        job.last_work(),
        None,
        "the first one has passed and showed nothing"
    );
}

#[test]
fn ceilings_are_learned_from_healthy_gaps_only() {
    let mut job = fold([O::Phase(Phase::Train)]);
    assert_eq!(
        (job.progress_ceiling(), job.learned()),
        (Some(600.0), false)
    );
    for n in 0..4_u32 {
        job.apply(step(u64::from(n) + 1), 200.0 + f64::from(n) * 100.0);
    }
    assert_eq!((job.progress_ceiling(), job.learned()), (Some(500.0), true));
    // Beyond the ceiling and nobody at work: no lesson.
    job.apply(step(5), 5000.0);
    assert_eq!(job.progress_ceiling(), Some(500.0));
    // The same gap, at work until the end of it: the run has such gaps.
    job.worked(9590.0);
    job.apply(step(6), 9600.0);
    assert_eq!(job.progress_ceiling(), Some(9200.0));
}

#[test]
fn all_that_was_read_at_one_time_teaches_nothing() {
    let mut job = Job::new(Limits::default());
    job.apply(O::Phase(Phase::Train), 100.0);
    (1..50).for_each(|n| job.apply(step(n), 100.0));
    assert_eq!(
        (job.progress_ceiling(), job.learned()),
        (Some(600.0), false)
    );
}

#[test]
fn an_unseen_validation_overruns_at_three_times_the_longest() {
    let mut job = fold([O::Phase(Phase::Train), O::Phase(Phase::Validation)]);
    assert_eq!(job.progress_ceiling(), Some(7200.0));
    job.apply(O::ValidationEnd, 701.0);
    job.apply(O::Phase(Phase::Train), 702.0);
    job.apply(O::Phase(Phase::Validation), 800.0);
    assert_eq!(
        (job.longest_pass(), job.progress_ceiling()),
        (Some(600.0), Some(1800.0))
    );
}

#[test]
fn suspended_time_does_not_count() {
    let mut job = fold([O::Phase(Phase::Train)]);
    job.worked(105.0);
    job.tick(106.0, false);
    job.tick(112.0, true);
    assert_eq!(
        (job.last_progress(), job.last_work()),
        (Some(106.0), Some(111.0))
    );
}

#[test]
fn a_jump_of_the_clock_is_no_silence_and_no_lesson() {
    for jump in [7200.0, -3600.0] {
        let mut job = fold([O::Phase(Phase::Train)]);
        job.tick(101.0, false);
        job.tick(102.0 + jump, false);
        let age = 102.0 + jump - job.last_progress().expect("set");
        assert!((0.0..=3.0).contains(&age), "{jump}: {age}");
        assert!(job.phase_seconds.iter().sum::<f64>() < 5.0, "{jump}");
    }
}

#[test]
fn what_could_not_be_seen_teaches_nothing() {
    let mut job = fold([O::Phase(Phase::Train)]);
    (1..6_u32).for_each(|n| job.apply(step(n.into()), 100.0 + 10.0 * f64::from(n)));
    let before = job.progress_ceiling();
    job.blinded();
    job.worked(1940.0);
    job.apply(step(90), 1950.0);
    assert_eq!(job.progress_ceiling(), before);
}

#[test]
fn an_exporter_that_begins_anew_keeps_the_age_of_the_last_progress() {
    // The log is folded at the time of its last byte; the first tick comes long after.
    let mut job = fold([O::Phase(Phase::Train), step(1)]);
    job.tick(1000.0, false);
    assert_eq!(job.last_progress(), Some(101.0));
}
