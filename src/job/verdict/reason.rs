//! Why a verdict is what it is, for people: which witness says what.

use std::fmt;

use super::{Facts, Silence};

/// The reason, in words: which witness says what.
pub fn because(facts: &Facts) -> String {
    let mut reasons = Vec::new();
    let progress = facts.progress.filter(|_| facts.phase.live());
    if let Some(Silence { age, .. }) = progress.filter(|progress| facts.unseen && !progress.over())
    {
        reasons.push(format!(
            "nothing counts what is left of the validation, so only work tells (last progress {} ago)",
            Seconds(age)
        ));
    } else if let Some(Silence { age, ceiling }) = progress {
        let against = if age > ceiling { "over" } else { "under" };
        reasons.push(format!(
            "last progress {} ago, {against} the ceiling of {}",
            Seconds(age),
            Seconds(ceiling)
        ));
    }
    if facts.phase.live() {
        reasons.push(match facts.work {
            _ if facts.busy => "its threads are busy, which proves nothing".to_owned(),
            Some(work) if work.over() && facts.may_convict => {
                format!(
                    "no work by any process or GPU for {} (allowed: {})",
                    Seconds(work.age),
                    Seconds(work.ceiling)
                )
            }
            Some(work) => format!("work was seen {} ago", Seconds(work.age)),
            None if facts.processes.is_some() => "no work was seen in this phase yet".to_owned(),
            None => "none of its processes is seen".to_owned(),
        });
    }
    if facts.stopped > 0 {
        reasons.push(format!("{} stopped", facts.stopped));
    }
    if facts.gone > 0 {
        reasons.push(format!("{} ranks gone while others live", facts.gone));
    }
    let gpus = facts.gpus;
    for (count, state) in [
        (gpus.idle, "idle"),
        (gpus.working, "working"),
        (gpus.spinning, "spinning"),
        (gpus.unknown, "in an unknown state"),
    ] {
        if count > 0 {
            reasons.push(format!("{count} of {} GPUs {state}", gpus.all()));
        }
    }
    reasons.join("; ")
}

/// A length of time as people say it.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.round() as u64;
        match whole {
            0..10 if self.0 < 9.95 => write!(f, "{:.1} s", self.0),
            0..120 => write!(f, "{whole} s"),
            120..7200 => write!(f, "{} min {:02} s", whole / 60, whole % 60),
            7200.. => write!(f, "{} h {:02} min", whole / 3600, whole % 3600 / 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{IDLE, NONE, healthy, late, still};
    use super::*;

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
            "last progress 1.0 s ago, under the ceiling of 5 min 00 s; none of its processes is seen"
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
}
