use super::asked::Source;
use super::observation::Recompile;
use super::*;

use Observation as O;

/// Applies what was said, one second after the other from 100 on.
pub(super) fn fold(said: impl IntoIterator<Item = Observation>) -> Job {
    let mut job = Job::new(Limits::default());
    said.into_iter()
        .zip(100..)
        .for_each(|(said, at)| job.apply(said, f64::from(at)));
    job
}

fn epoch(epoch: u64, of: u64) -> Observation {
    O::Epoch {
        epoch,
        of: Some(of),
    }
}

pub(super) fn step(step: u64) -> Observation {
    O::Step { step, of: None }
}

fn part(done: u64, of: u64) -> Progress {
    Progress { done, of: Some(of) }
}

fn whole(opened: u64) -> Option<Files> {
    Some(Files {
        opened,
        whole: true,
    })
}

#[test]
fn checkpoints_go_back_to_what_they_interrupted() {
    let mut job = fold([
        epoch(1, 2),
        O::Phase(Phase::Train),
        O::Phase(Phase::Checkpoint),
    ]);
    assert_eq!(job.phase, Phase::Checkpoint);
    job.apply(O::CheckpointEnd, 110.0);
    assert_eq!(job.phase, Phase::Train);
    // The other order: the last epoch is over when its checkpoint begins.
    job.apply(epoch(2, 2), 120.0);
    job.apply(O::Phase(Phase::Validation), 121.0);
    job.apply(O::ValidationEnd, 130.0);
    job.apply(O::EpochEnd, 130.0);
    assert_eq!(
        (job.phase, job.ended),
        (Phase::Finished, Some((Ended::Finished, 130.0)))
    );
    job.apply(O::Phase(Phase::Checkpoint), 131.0);
    assert_eq!((job.phase, job.ended), (Phase::Checkpoint, None));
    job.apply(O::CheckpointEnd, 133.0);
    assert_eq!(
        (job.phase, job.ended),
        (Phase::Finished, Some((Ended::Finished, 133.0)))
    );
}

#[test]
fn the_end_of_the_last_epoch_is_told_as_the_beginning_of_another() {
    let job = fold([epoch(2, 2), epoch(3, 2), O::End(Ended::Finished)]);
    assert_eq!((job.phase, job.epoch), (Phase::Finished, Some(2)));
}

#[test]
fn checkpoints_teach_how_often_they_come() {
    let mut job = fold([epoch(1, 9), O::Phase(Phase::Train)]);
    assert_eq!(
        (job.last_checkpoint(), job.checkpoint_ceiling()),
        (None, None)
    );
    for (begin, end) in [(1000.0, 1010.0), (1600.0, 1610.0), (2300.0, 2310.0)] {
        job.apply(O::Phase(Phase::Checkpoint), begin);
        job.apply(O::CheckpointEnd, end);
    }
    assert_eq!(job.last_checkpoint(), Some(2310.0));
    assert_eq!(job.checkpoint_ceiling(), None, "two gaps say nothing yet");
    // One that is saved beside the training has no phase.
    job.apply(O::CheckpointEnd, 2900.0);
    assert_eq!(
        job.checkpoint_ceiling(),
        Some(1800.0),
        "3 x 600, of gaps 600, 700, 590"
    );
    // One in which the run dies is none.
    job.apply(O::Phase(Phase::Checkpoint), 3000.0);
    job.exited(3100.0);
    assert_eq!(
        (job.last_checkpoint(), job.checkpoint_ceiling()),
        (Some(2900.0), None)
    );
}

#[test]
fn a_run_that_was_asked_to_stop_has_not_failed() {
    let mut job = fold([O::Phase(Phase::Train), O::Stopping(Ended::Cancelled)]);
    job.exited(200.0);
    assert_eq!(
        (job.phase, job.ended),
        (Phase::Finished, Some((Ended::Cancelled, 200.0)))
    );
    let mut job = fold([O::Phase(Phase::Train)]);
    job.exited(200.0);
    assert_eq!(
        (job.phase, job.ended),
        (Phase::Failed, Some((Ended::Vanished, 200.0)))
    );
}

#[test]
fn only_new_highest_values_are_progress() {
    let mut job = fold([O::Phase(Phase::Train), step(10)]);
    for (said, at, last) in [
        (step(10), 200.0, 101.0),
        (step(9), 201.0, 101.0),
        (step(11), 202.0, 202.0),
        (O::Bar(part(5, 9)), 203.0, 203.0),
        (O::Bar(part(5, 9)), 204.0, 203.0),
        (O::Fault(Fault::Exception), 205.0, 203.0),
        (O::Phase(Phase::Train), 206.0, 203.0),
        (O::Phase(Phase::Validation), 207.0, 207.0),
        (O::Bar(part(1, 9)), 208.0, 208.0),
    ] {
        job.apply(said.clone(), at);
        assert_eq!(job.last_progress(), Some(last), "{said}");
    }
}

#[test]
fn a_new_process_inherits_nothing() {
    for again in [O::Start, epoch(1, 4), step(3)] {
        let mut job = fold([epoch(3, 4), O::Phase(Phase::Train), step(900)]);
        job.apply(again.clone(), 9000.0);
        assert_eq!(job.last_progress(), Some(9000.0), "{again}");
        assert_eq!(
            (job.phase, job.started),
            (Phase::Unknown, Some(9000.0)),
            "{again}"
        );
        assert!(!job.enrolled, "{again}");
    }
    // Lines of several ranks come a little out of order: that is no restart.
    let mut job = fold([O::Phase(Phase::Train), step(900)]);
    job.apply(step(899), 9000.0);
    assert_eq!(
        (job.phase, job.step),
        (
            Phase::Train,
            Some(Progress {
                done: 900,
                of: None
            })
        )
    );
}

#[test]
fn enrolled_by_an_edge_or_by_two_steps() {
    assert!(!fold([O::Start, epoch(1, 2), step(1), step(1)]).enrolled);
    assert!(fold([O::Start, O::Phase(Phase::Init)]).enrolled);
    assert!(fold([step(1), step(2)]).enrolled);
    assert!(fold([O::Phase(Phase::Train)]).enrolled);
}

#[test]
fn files_stand_in_where_the_log_is_silent() {
    let mut job = fold([O::Phase(Phase::Validation)]);
    assert_eq!(
        (job.source(), job.validation_progress()),
        (Some(Source::Nothing), None)
    );
    assert!(job.unseen());
    job.opened_files(whole(7), 110.0);
    let unknown = Progress { done: 7, of: None };
    assert_eq!(
        (job.source(), job.validation_progress()),
        (Some(Source::Files), Some(unknown))
    );
    assert_eq!(
        (job.unseen(), job.last_progress(), job.last_work()),
        (false, Some(110.0), Some(110.0))
    );
    job.opened_files(whole(7), 120.0);
    assert_eq!(job.last_progress(), Some(110.0), "no new file, no progress");
    // The bar comes at the end, in its own unit; then nothing can be seen any more.
    job.apply(O::Bar(part(1688, 1688)), 130.0);
    assert_eq!((job.source(), job.unseen()), (Some(Source::Log), true));
    job.apply(O::ValidationEnd, 131.0);
    job.apply(O::Phase(Phase::Train), 132.0);
    assert_eq!((job.source(), job.validation_progress()), (None, None));
    // The next pass is measured by this one; beyond it the share stays at 1.
    job.apply(O::Phase(Phase::Validation), 140.0);
    job.opened_files(whole(9), 141.0);
    assert_eq!(job.validation_progress(), Some(part(7, 7)));
}

#[test]
fn eight_ranks_recompile_as_one_and_a_repeated_line_counts_once() {
    let limit = |by: &str, frame: &str, attempt| {
        O::RecompileLimit(Recompile {
            by: by.to_owned(),
            frame: frame.to_owned(),
            attempt,
        })
    };
    let ranks = (0..8).map(|rank| limit(&format!("rank {rank}"), "7", 8));
    let mut job = fold(ranks);
    assert_eq!(job.recompiles(), (8, 1));
    job.apply(limit("rank 3", "7", 8), 200.0);
    assert_eq!(job.recompiles(), (8, 1));
    job.apply(limit("rank 3", "9", 8), 201.0);
    assert_eq!(job.recompiles(), (16, 2));
}

#[test]
fn a_loss_that_is_no_number_is_counted_and_not_shown() {
    let value = |value| O::Value {
        name: "loss".to_owned(),
        value,
    };
    let mut job = fold([value(1.5)]);
    assert_eq!((job.values.get("loss"), job.nonfinite), (Some(&1.5), 0));
    job.apply(value(f64::NAN), 200.0);
    assert_eq!((job.values.get("loss"), job.nonfinite), (None, 1));
    (0..100).for_each(|n| {
        job.apply(
            O::Value {
                name: format!("v{n}"),
                value: 1.0,
            },
            201.0,
        )
    });
    assert_eq!(job.values.len(), VALUES);
}

#[test]
fn the_fault_before_the_end_is_its_reason() {
    let failed = [O::Fault(Fault::RankFailed), O::End(Ended::Error)];
    let oom = fold(
        [O::Phase(Phase::Train), O::Fault(Fault::OutOfMemory)]
            .into_iter()
            .chain(failed.clone()),
    );
    assert_eq!(
        oom.ended.map(|(reason, _)| reason),
        Some(Ended::OutOfMemory)
    );
    // One that was caught and retried is not: the run went on.
    let caught = [O::Fault(Fault::OutOfMemory), O::Fault(Fault::Exception)]
        .into_iter()
        .chain(failed);
    assert_eq!(
        fold(caught).ended.map(|(reason, _)| reason),
        Some(Ended::Error)
    );
}

#[test]
fn a_pass_that_was_not_seen_from_its_beginning_moves_but_has_no_share() {
    let mut job = fold([O::Phase(Phase::Validation)]);
    let rest = Some(Files {
        opened: 7,
        whole: false,
    });
    job.opened_files(rest, 110.0);
    assert_eq!(
        (job.source(), job.validation_progress(), job.unseen()),
        (Some(Source::Files), None, false)
    );
    assert_eq!(job.last_progress(), Some(110.0));
    // Another run opens files there, too: nothing is said.
    job.opened_files(None, 120.0);
    assert_eq!((job.source(), job.unseen()), (Some(Source::Nothing), true));
    job.apply(O::Phase(Phase::Train), 130.0);
    job.apply(O::Phase(Phase::Validation), 140.0);
    job.opened_files(whole(3), 141.0);
    assert_eq!(
        job.validation_progress(),
        Some(Progress { done: 3, of: None }),
        "no total from half a pass"
    );
}

#[test]
fn a_bar_within_the_trainings_bar_is_not_the_training() {
    let bar = |step, of| O::Step { step, of: Some(of) };
    let job = fold([bar(3, 20), bar(100, 300), bar(10, 20), bar(101, 300)]);
    assert_eq!((job.step, job.started), (Some(part(101, 300)), Some(100.0)));
    assert!(job.enrolled);
}

#[test]
fn a_complete_pass_is_not_begun_again_by_a_checkpoint() {
    let job = fold([
        O::Phase(Phase::Validation),
        O::ValidationEnd,
        O::Phase(Phase::Checkpoint),
        O::CheckpointEnd,
    ]);
    assert_eq!(job.phase, Phase::Train);
}

#[test]
fn a_bar_that_begins_anew_with_each_epoch_is_no_restart() {
    let bar = |step| O::Step {
        step,
        of: Some(300),
    };
    let job = fold([
        epoch(1, 9),
        bar(1),
        bar(300),
        O::Epoch { epoch: 2, of: None },
        bar(0),
        bar(1),
    ]);
    assert_eq!(
        (job.step, job.epochs, job.started),
        (Some(part(1, 300)), Some(9), Some(100.0))
    );
    assert!(job.enrolled);
    assert_eq!(job.last_progress(), Some(105.0));
}
