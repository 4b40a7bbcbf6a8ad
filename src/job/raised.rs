//! An exception that nothing caught, as far as the log shows.
//!
//! A log cannot tell whether somebody caught it and only printed it. Where nobody sees the processes, the run has failed.
//! Where they live, the run goes on until they are gone, one of its ranks is gone, or it is late: an exception that was
//! caught is followed by steps.

use super::observation::Ended;
use super::{Job, Phase, Unix};

/// What an exception would make of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Raised {
    pub(super) reason: Ended,
    at: Unix,
    /// What the run was doing.
    phase: Phase,
}

impl Job {
    /// A traceback stands in the log.
    pub(super) fn raise(&mut self, reason: Ended, at: Unix) {
        if self.ended.is_some() {
            return;
        }
        let phase = self.phase;
        self.raised = Some(Raised { reason, at, phase });
        if !self.attended {
            self.end(self.stopping.unwrap_or(reason), at);
        }
    }

    /// Processes of the run are seen to live; so many of its ranks are gone.
    pub fn attended(&mut self, ranks_gone: u64, at: Unix) {
        self.attended = true;
        let Some(raised) = self.raised else { return };
        if ranks_gone > 0 {
            self.fall(at);
        } else if self.ended.is_some() && raised.phase.live() {
            self.enter(raised.phase, raised.at);
        }
    }

    /// Whoever should have caught it has had the time of a whole ceiling.
    pub(super) fn fall_if_late(&mut self, now: Unix) {
        let silence = self.progress.silence(now).zip(self.progress_ceiling());
        if silence.is_some_and(|(silence, ceiling)| silence > ceiling) {
            self.fall(now);
        }
    }

    fn fall(&mut self, at: Unix) {
        if self.ended.is_none()
            && let Some(raised) = self.raised.take()
        {
            self.end(self.stopping.unwrap_or(raised.reason), at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cadence::Limits;
    use super::super::observation::{Observation as O, Progress};
    use super::*;

    fn step(done: u64) -> O {
        O::Train(Progress {
            done,
            of: Some(360),
        })
    }

    /// In training at 110; an exception at 111.
    fn raised(attended: bool) -> Job {
        let mut job = Job::new(Limits::default());
        job.apply(step(7), 110.0);
        if attended {
            job.attended(0, 110.0);
        }
        job.apply(O::Raised(Ended::Error), 111.0);
        job
    }

    #[test]
    fn where_nobody_sees_the_processes_the_run_has_failed() {
        let mut job = raised(false);
        assert_eq!(job.ended, Some((Ended::Error, 111.0)));
        // An exporter that has just begun sees them only now.
        job.attended(0, 112.0);
        assert_eq!((job.phase, job.ended), (Phase::Train, None));
    }

    #[test]
    fn what_was_caught_is_followed_by_steps() {
        let mut job = raised(true);
        assert_eq!((job.phase, job.ended), (Phase::Train, None));
        job.apply(step(8), 120.0);
        job.apply(step(9), 130.0);
        job.tick(10_000.0, false);
        assert_eq!((job.phase, job.ended), (Phase::Train, None));
        job.exited(10_001.0);
        assert_eq!(job.ended, Some((Ended::Vanished, 10_001.0)));
    }

    #[test]
    fn a_run_falls_with_its_rank_with_its_processes_or_when_it_is_late() {
        let mut job = raised(true);
        job.attended(1, 115.0);
        assert_eq!(job.ended, Some((Ended::Error, 115.0)));
        job.attended(1, 120.0);
        assert!(job.ended.is_some(), "the other ranks still live");
        let mut job = raised(true);
        job.exited(115.0);
        assert_eq!(job.ended, Some((Ended::Error, 115.0)));
        let mut job = raised(true);
        job.tick(709.0, false);
        assert_eq!(job.ended, None);
        job.tick(712.0, false);
        assert_eq!(job.ended, Some((Ended::Error, 712.0)));
    }

    #[test]
    fn what_the_launcher_says_is_final() {
        let mut job = raised(false);
        job.apply(O::End(Ended::Error), 111.5);
        job.attended(0, 112.0);
        assert_eq!(job.phase, Phase::Failed);
    }

    #[test]
    fn who_has_done_all_steps_needs_no_word_for_the_end() {
        let mut job = Job::new(Limits::default());
        job.apply(step(360), 110.0);
        job.exited(120.0);
        assert_eq!(job.ended, Some((Ended::Finished, 120.0)));
    }
}
