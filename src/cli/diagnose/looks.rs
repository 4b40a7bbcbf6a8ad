//! What two looks at a run say. Pure but for the taking of a sight: two of them in, one diagnosis out. The verdict and its
//! words are the exporter's; what is decided here is only how far the looks themselves bear it out.

use super::ask::{Clock, RunSaid};
use super::moved::{processes, witnesses};
use super::next::next;
use super::report::{Diagnosis, Outcome, Sure};
use super::watch::Watch;
use crate::job::verdict::Verdict;
use crate::job::verdict::reason::Seconds;
use crate::node::process::window::{Evidence, judge};
use crate::node::process::{Counters, Witnessed};
use crate::node::procfs::standing::Standing;
use crate::web::words::NOBODY;

/// The window that the thresholds of work were fitted on, in seconds; somewhat longer ones are judged as a whole.
const FITTED: f64 = 60.0;
const WHOLE: f64 = 1.5 * FITTED;

/// One look at one run.
pub(super) struct Sight {
    /// What the exporter says, or what this program would say as one.
    pub(super) said: Option<RunSaid>,
    /// What the own eyes see of its processes; none if nobody is there.
    pub(super) seen: Option<Witnessed>,
    /// Why they see nothing.
    pub(super) hidden: Option<String>,
    /// Where each process stands.
    pub(super) standing: Vec<Standing>,
    /// Alone: somebody lived, wrote or opened something.
    alive: bool,
    /// Alone: bytes of the log that are not read yet.
    lag: u64,
}

impl Sight {
    pub(super) fn new(said: Option<RunSaid>, watch: Option<&Watch>, run: &str) -> Self {
        let seen = watch.map_or_else(
            || Err("its processes are on another node".to_owned()),
            |watch| watch.processes(run),
        );
        Self {
            said,
            hidden: seen.as_ref().err().cloned(),
            seen: seen.ok().flatten(),
            standing: Vec::new(),
            alive: watch.is_some_and(|watch| watch.is_alive(run)),
            lag: watch.map_or(0, |watch| watch.lag(run)),
        }
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        let seen = self.seen.as_ref();
        seen.map(|seen| seen.seen.pids.clone()).unwrap_or_default()
    }

    pub(super) fn counters(&self) -> Option<&Counters> {
        self.seen.as_ref().map(|seen| &seen.seen.counters)
    }

    /// Where the same process stood at this look.
    pub(super) fn same(&self, now: &Standing) -> Option<&Standing> {
        let same = |then: &&Standing| (then.pid, then.started) == (now.pid, now.started);
        self.standing.iter().find(same)
    }
}

impl Diagnosis {
    pub(super) fn of(name: &str, before: &Sight, after: &Sight, seconds: f64, alone: bool) -> Self {
        let said = after
            .said
            .clone()
            .or(before.said.clone())
            .unwrap_or_default();
        let verdict = after.said.as_ref().and_then(RunSaid::verdict);
        let looks = Looks {
            before,
            after,
            said: &said,
            seconds,
            alone,
        };
        let (outcome, sure, mut why) = looks.conclude(verdict);
        why.extend(looks.limits(verdict));
        Self {
            run: name.to_owned(),
            log: said.log.path.clone(),
            verdict: said.verdict.clone(),
            outcome,
            exit_code: outcome.code(),
            headline: looks.headline(outcome),
            because: said.because.clone(),
            sure,
            why,
            phase: said.phase.clone(),
            epoch: said.epoch,
            progress: said.progress,
            work: said.work,
            evidence: looks.evidence().map(word),
            witnesses: witnesses(before, after, &said),
            processes: processes(before, after),
            next: next(outcome, before, after, &said),
        }
    }
}

struct Looks<'a> {
    before: &'a Sight,
    after: &'a Sight,
    said: &'a RunSaid,
    seconds: f64,
    alone: bool,
}

impl Looks<'_> {
    /// What the verdict comes to, how sure that is, and the first reason.
    fn conclude(&self, verdict: Option<Verdict>) -> (Outcome, Sure, Vec<String>) {
        let Some(verdict) = verdict else {
            let why = "the exporter gave no verdict that this version knows".to_owned();
            return (Outcome::NotTold, Sure::Unsure, vec![why]);
        };
        let said = |outcome, sure, why: &str| (outcome, sure, vec![why.to_owned()]);
        match verdict {
            Verdict::LostRank => said(
                Outcome::Hung,
                Sure::Seen,
                "a process of it is stopped while others wait for it",
            ),
            Verdict::Hung if self.quiet() => said(
                Outcome::Hung,
                Sure::Seen,
                "its processes have shown work before in such a phase, and show none now",
            ),
            Verdict::Hung if self.younger() => said(
                Outcome::NotTold,
                Sure::Unsure,
                "its processes began after the log's last word: that may be of others, and these only starting",
            ),
            Verdict::Hung => said(
                Outcome::Hung,
                Sure::Likely,
                "only time proves it: it stands still for longer than any patience, but no witness may convict",
            ),
            Verdict::Suspended => said(
                Outcome::Suspended,
                Sure::Seen,
                "all its processes are stopped",
            ),
            Verdict::Finished
            | Verdict::Cancelled
            | Verdict::Preempted
            | Verdict::Failed
            | Verdict::Vanished
            | Verdict::Closing => {
                said(Outcome::Over, Sure::Seen, "its log or its processes say so")
            }
            Verdict::NotJudged if self.nobody() => said(Outcome::Nobody, Sure::Likely, NOBODY),
            Verdict::NotJudged | Verdict::Blind => said(
                Outcome::NotTold,
                Sure::Unsure,
                "there is not enough to judge it by",
            ),
            Verdict::Waiting | Verdict::Slow | Verdict::Unproven => said(
                Outcome::NotTold,
                Sure::Unsure,
                "it is late, but nothing proves a hang",
            ),
            Verdict::Training
            | Verdict::Validating
            | Verdict::ValidationIdle
            | Verdict::Checkpointing
            | Verdict::Starting => self.healthy(),
        }
    }

    /// Within its ceilings. That is healthy if something moved.
    fn healthy(&self) -> (Outcome, Sure, Vec<String>) {
        let lately = |clock: Option<Clock>| clock.is_some_and(|clock| clock.age < self.seconds);
        let moved = if self.after.lag > 0 {
            Err(format!(
                "its log is not read to the end: {} bytes are left; give a longer --wait",
                self.after.lag
            ))
        } else if self.stood(|one| one.stopped() || one.writes_to.is_some()) {
            Err("it is not late yet, but one of its processes can do nothing".to_owned())
        } else if lately(self.said.progress) {
            Ok("its numbers advanced while it was looked at")
        } else if self.evidence() == Some(Evidence::Work) || lately(self.said.work) {
            Ok("its processes or GPUs did work that no hung job does")
        } else if self.said.gpus.iter().any(|gpu| gpu.state == "working") {
            Ok("its GPUs draw the power of work")
        } else {
            let rest = match self.said.progress {
                Some(clock) => format!(
                    "; it may be silent for {} before it is late, so look again, or with a longer --wait",
                    Seconds(clock.ceiling)
                ),
                None => String::new(),
            };
            let seconds = Seconds(self.seconds);
            Err(format!(
                "nothing that proves life moved for {seconds}{rest}"
            ))
        };
        match moved {
            Ok(why) => (Outcome::Healthy, Sure::Seen, vec![why.to_owned()]),
            Err(why) => (Outcome::NotTold, Sure::Unsure, vec![why]),
        }
    }

    /// What weakens or explains the answer.
    fn limits(&self, verdict: Option<Verdict>) -> Vec<String> {
        let mut why = Vec::new();
        let after = self.after;
        let stopped = after.standing.iter().filter(|process| process.stopped());
        let stopped = stopped.count();
        if stopped > 0 && verdict != Some(Verdict::Suspended) {
            let all = after.standing.len();
            why.push(match stopped == all {
                true => "all its processes are stopped or traced: nothing can move".to_owned(),
                false => format!(
                    "{stopped} of {all} processes are stopped or traced: the others will wait for them"
                ),
            });
        }
        if self.stood(|one| one.writes_to.is_some()) {
            why.push(
                "a main thread stood in a write to stdout or stderr all the time: whoever reads that pipe does not"
                    .to_owned(),
            );
        }
        if self.stood(|one| one.state == 'D') {
            why.push(
                "a main thread was in uninterruptible sleep all the time: storage or a driver"
                    .to_owned(),
            );
        }
        let over = verdict.is_some_and(|verdict| Outcome::Over == self.conclude(Some(verdict)).0);
        if over {
            return why;
        }
        if self.evidence() == Some(Evidence::Busy) {
            why.push("its threads compute or spin, which proves neither life nor death".to_owned());
        }
        if after.counters().is_some_and(Counters::limited) {
            why.push(
                "what its processes read and write may not be seen, so that they do nothing proves nothing: run this \
                 with CAP_SYS_PTRACE, or as the training's user"
                    .to_owned(),
            );
        }
        why.extend(
            after
                .hidden
                .iter()
                .map(|hidden| format!("its processes are not seen: {hidden}")),
        );
        why.extend(
            self.said
                .log
                .error
                .iter()
                .map(|error| format!("its log cannot be read: {error}")),
        );
        if self.seconds < FITTED {
            why.push(format!(
                "{} is shorter than the {} that work is measured over: work that is seen counts, its absence counts less",
                Seconds(self.seconds),
                Seconds(FITTED)
            ));
        }
        if self.alone {
            why.push(
                "its past is not known here: the ceilings are start values, progress counts from the log's last write, and \
                 nobody has been seen at work before; a running exporter is surer"
                    .to_owned(),
            );
        }
        why
    }

    /// A process of this kind stood in one place all the time.
    fn stood(&self, kind: impl Fn(&Standing) -> bool) -> bool {
        let stood = |now: &Standing| {
            let then = self.before.same(now);
            kind(now) && then.is_some_and(|then| now.stands_since(then))
        };
        self.after.standing.iter().any(stood)
    }

    fn headline(&self, outcome: Outcome) -> String {
        match outcome {
            Outcome::Nobody => "Nobody writes its log".to_owned(),
            Outcome::NotTold if self.said.headline.is_empty() => "No answer".to_owned(),
            Outcome::NotTold if self.said.verdict == Verdict::Hung.name() => {
                "Starting, or hung: its log is older than its processes".to_owned()
            }
            // The exporter's words tell of its own past, which is none here.
            Outcome::NotTold if self.alone && self.after.hidden.is_some() && !self.after.alive => {
                "Not judged: its processes may not be seen".to_owned()
            }
            Outcome::Hung
            | Outcome::NotTold
            | Outcome::Suspended
            | Outcome::Over
            | Outcome::Healthy => self.said.headline.clone(),
        }
    }

    /// Alone: everybody may be seen, and nobody is there.
    fn nobody(&self) -> bool {
        self.alone && self.after.hidden.is_none() && self.after.seen.is_none() && !self.after.alive
    }

    /// Alone: nobody who lives was there when the log was last written.
    fn younger(&self) -> bool {
        let (all, last) = (&self.after.standing, self.said.log.last_write_age);
        let began_later = |age: f64| all.iter().all(|process| process.age + 1.0 < age);
        self.alone && !all.is_empty() && last.is_some_and(began_later)
    }

    /// Clock Q is over its ceiling, and nobody is busy.
    fn quiet(&self) -> bool {
        let over = self.said.work.is_some_and(|work| work.age > work.ceiling);
        over && self.evidence() != Some(Evidence::Busy)
    }

    /// What the processes did, by the product's thresholds: over the whole time, unless that is much longer than the
    /// window they are for.
    fn evidence(&self) -> Option<Evidence> {
        let newest = self.after.seen.as_ref()?.evidence;
        let whole = self.before.counters().zip(self.after.counters());
        let whole = whole
            .filter(|(before, after)| {
                self.seconds <= WHOLE
                    && before.main_cpu_seconds <= after.main_cpu_seconds
                    && before.page_faults <= after.page_faults
            })
            .filter(|_| {
                let then = self.before.pids();
                self.after.pids().iter().any(|pid| then.contains(pid))
            });
        whole.map_or(newest, |(before, after)| {
            Some(judge(before, after, self.seconds, 1.0))
        })
    }
}

/// The word for what the processes did.
fn word(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Work => "work",
        Evidence::Busy => "busy",
        Evidence::Still => "still",
    }
}
