use super::super::cadence::Limits;
use super::super::observation::{Ended, Observation as O};
use super::*;

/// Applies what was said, one second after the other.
fn fold(said: impl IntoIterator<Item = O>) -> Job {
    let mut job = Job::new(Limits::default());
    go_on(&mut job, said);
    job
}

fn go_on(job: &mut Job, said: impl IntoIterator<Item = O>) {
    for said in said {
        let at = job.last_progress().unwrap_or(100.0) + 1.0;
        job.apply(said, at);
    }
}

fn part(done: u64, of: u64) -> Progress {
    Progress { done, of: Some(of) }
}

fn train(step: u64) -> O {
    O::Train(part(step, 360))
}

fn validate(done: u64) -> O {
    O::Validate(part(done, 120))
}

fn result(done: f64) -> O {
    O::Result {
        epochs_done: Some(done),
    }
}

fn epoch(epoch: u64) -> O {
    O::Epoch { epoch, of: Some(3) }
}

#[test]
fn a_redraw_neither_ends_a_validation_nor_begins_one() {
    let mut job = fold([train(119), train(120), validate(0), validate(118)]);
    for old in [train(120), train(119), validate(118), validate(120)] {
        job.apply(old.clone(), 200.0);
        assert_eq!(job.phase, Phase::Validation, "{old}");
    }
    go_on(&mut job, [train(121)]);
    for old in [validate(120), validate(119), validate(61)] {
        job.apply(old.clone(), 300.0);
        assert_eq!(job.phase, Phase::Train, "{old}");
    }
    go_on(&mut job, [validate(1)]);
    assert_eq!(job.phase, Phase::Validation);
}

#[test]
fn a_result_that_comes_a_pass_late_ends_nothing() {
    let mut job = fold([train(120), validate(0), validate(120), train(121)]);
    go_on(
        &mut job,
        [train(240), validate(0), result(1.0), validate(5)],
    );
    assert_eq!(job.phase, Phase::Validation);
    assert_eq!(job.validation, Some(part(5, 120)));
    assert_eq!((job.epoch, job.epochs), (Some(2), Some(3)));
    go_on(&mut job, [result(2.0)]);
    assert_eq!(job.validation, Some(part(120, 120)));
}

#[test]
fn the_epoch_follows_from_the_steps() {
    let mut job = fold([train(1), O::FirstEpoch, train(120), validate(0)]);
    assert_eq!((job.epoch, job.epochs), (Some(1), None));
    go_on(&mut job, [result(1.0), train(121)]);
    assert_eq!((job.epoch, job.epochs), (Some(2), Some(3)));
    go_on(
        &mut job,
        [
            O::EpochsDone {
                done: 0.9,
                step: None,
            },
            train(240),
        ],
    );
    assert_eq!(job.epoch, Some(2));
    go_on(&mut job, [train(241)]);
    assert_eq!(job.epoch, Some(3));
    // A fraction of few digits.
    let mut job = fold([
        train(50),
        O::EpochsDone {
            done: 0.42,
            step: Some(50),
        },
    ]);
    assert_eq!((job.epoch, job.epochs), (Some(1), Some(3)));
    go_on(&mut job, [train(121)]);
    assert_eq!(job.epoch, Some(2));
    // Nothing tells how long one is: after a pass nobody knows.
    let mut job = fold([train(1), O::FirstEpoch, validate(0), validate(120)]);
    assert_eq!(job.epoch, Some(1));
    go_on(&mut job, [train(2)]);
    assert_eq!(job.epoch, None);
}

#[test]
fn a_straggler_of_the_epoch_before_is_no_restart() {
    let bar = |done| O::TrainBar(part(done, 60));
    let mut job = fold([epoch(1), bar(59), epoch(2), bar(1), epoch(1), bar(60)]);
    assert_eq!((job.epoch, job.phase), (Some(2), Phase::Train));
    assert_eq!(job.marks.bar, Some(1));
    go_on(
        &mut job,
        [epoch(2), bar(2), epoch(1), epoch(1), epoch(1), bar(7)],
    );
    assert_eq!(job.epoch, Some(1), "it went back");
}

#[test]
fn one_step_of_a_rank_that_has_not_noticed_undoes_no_failure() {
    let mut job = fold([train(7), O::End(Ended::Error), train(8), validate(1)]);
    assert_eq!(job.phase, Phase::Failed);
    go_on(&mut job, [train(9), train(10)]);
    assert_eq!(
        (job.phase, job.ended),
        (Phase::Train, None),
        "it was caught"
    );
}

#[test]
fn an_evaluation_of_the_trained_model_ends_finished() {
    let mut job = fold([train(360), O::End(Ended::Finished), validate(0)]);
    assert_eq!(job.phase, Phase::Validation);
    go_on(&mut job, [validate(120), O::Result { epochs_done: None }]);
    assert_eq!(job.phase, Phase::Finished);
}

#[test]
fn a_log_that_says_epoch_0_counts_from_it() {
    let counted = |epoch| O::CountedEpoch { epoch, of: Some(3) };
    let mut job = fold([counted(1), counted(2)]);
    assert_eq!((job.epoch, job.epochs), (Some(2), Some(3)));
    job = fold([counted(0), counted(1), counted(2)]);
    assert_eq!((job.epoch, job.epochs), (Some(3), Some(3)));
    go_on(&mut job, [counted(0)]);
    assert_eq!(job.epoch, Some(1), "another process");
    go_on(&mut job, [counted(1)]);
    assert_eq!(job.epoch, Some(2));
}

#[test]
fn the_second_bar_of_an_epoch_is_its_validation() {
    let bar = |done, of| O::EpochBar(part(done, of));
    let mut job = fold([epoch(1), bar(1, 60), bar(59, 60)]);
    assert_eq!(job.phase, Phase::Train);
    go_on(&mut job, [bar(60, 60), bar(59, 60)]);
    assert_eq!(job.phase, Phase::Train, "a redraw");
    go_on(&mut job, [bar(1, 60), bar(40, 60)]);
    assert_eq!(job.validation, Some(part(40, 60)));
    go_on(&mut job, [epoch(2), bar(1, 60)]);
    assert_eq!(job.phase, Phase::Train);
    go_on(&mut job, [bar(60, 60), bar(2, 90), bar(70, 90)]);
    assert_eq!(job.validation, Some(part(70, 90)), "another total");
}

#[test]
fn a_bar_that_is_drawn_late_makes_no_epoch_shorter() {
    let train = |step| O::Train(part(step, 120));
    let mut job = fold([train(1), train(39), validate(0), validate(120), result(1.0)]);
    assert_eq!(job.epochs, Some(3));
    go_on(&mut job, [train(118), train(120)]);
    assert_eq!(job.epoch, Some(3));
    // Of an epoch and a half this is no lateness.
    let job = fold([train(80), validate(0), validate(120), result(1.0)]);
    assert_eq!(job.epochs, None);
}

#[test]
fn after_a_pass_of_unknown_length_the_bar_goes_on() {
    let bar = |done| O::TrainBar(Progress { done, of: None });
    let pass = |done| O::Validate(Progress { done, of: None });
    let mut job = fold([epoch(1), bar(20), pass(0), pass(30), bar(20)]);
    assert_eq!(job.phase, Phase::Validation);
    go_on(&mut job, [bar(21)]);
    assert_eq!(job.phase, Phase::Train);
    // The bar of a Lightning before 2.0 goes on with the pass, and is drawn again after the end.
    let mut job = fold([epoch(1), bar(20), pass(1), bar(21), pass(2), bar(22)]);
    assert_eq!(job.phase, Phase::Validation);
    go_on(&mut job, [O::End(Ended::Finished), bar(22)]);
    assert_eq!(job.phase, Phase::Finished);
    go_on(&mut job, [epoch(2), bar(1)]);
    assert_eq!(job.phase, Phase::Train);
}
