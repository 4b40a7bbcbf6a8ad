//! The words of `emit`: what a rule's match says, and which captures it needs for that.
//!
//! Captures that count from 0 end in `0` (`epoch0`, `step0`, `done0`), totals that are a last index are `last_epoch`,
//! `last_step` and `last`: what comes out counts from 1.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::job::Phase;
use crate::job::observation::{Ended, Fault, Observation, Progress, Recompile};
use crate::log::pattern::{Pattern, Taken};

/// A word, or a list of them.
#[derive(Debug)]
pub(super) struct Emits(pub(super) Vec<Emit>);

/// What a match says; the captures fill it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Emit {
    Start,
    Phase(Phase),
    Epoch,
    CountedEpoch,
    FirstEpoch,
    Planned,
    EpochsDone,
    EpochsTrained,
    Step,
    Train,
    TrainBar,
    EpochBar,
    Validate,
    Validation,
    Bar,
    ValidationEnd,
    Result,
    CheckpointEnd,
    EpochEnd,
    Recompile,
    RecompileLimit,
    Fault(Fault),
    Stopping(Ended),
    End(Ended),
    /// The name may hold `{k}`: the capture `k`, which should be a small number.
    Value(String),
    CollectiveTimeout,
}

const WORDS: &str = "start, epoch, counted_epoch, first_epoch, epochs_done, epochs_trained, planned, step, train, train_bar, epoch_bar, validate, validation, bar, \
                     validation_end, result, checkpoint_end, epoch_end, recompile, recompile_limit, collective_timeout, or one of \
                     {phase: ..}, {fault: ..}, {stopping: ..}, {end: ..}, {value: ..}";

impl Emit {
    /// The captures without which this can say nothing: one of each group.
    fn needs(&self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Epoch => &[&["epoch", "epoch0"]],
            Self::CountedEpoch => &[&["epoch"]],
            Self::EpochsDone | Self::EpochsTrained => &[&["epochs_done"]],
            Self::Planned => &[&["epochs", "last_epoch", "steps", "last_step"]],
            Self::Step | Self::Train => &[&["step", "step0"]],
            Self::TrainBar | Self::EpochBar | Self::Validate | Self::Validation | Self::Bar => {
                &[&["done", "done0"]]
            }
            Self::Recompile | Self::RecompileLimit => &[&["frame"], &["attempt", "attempt0"]],
            Self::Value(_) => &[&["value"]],
            Self::CollectiveTimeout => &[&["milliseconds"]],
            Self::Start
            | Self::Phase(_)
            | Self::FirstEpoch
            | Self::ValidationEnd
            | Self::Result
            | Self::CheckpointEnd
            | Self::EpochEnd
            | Self::Fault(_)
            | Self::Stopping(_)
            | Self::End(_) => &[],
        }
    }

    pub(super) fn check(&self, when: &Pattern) -> Result<(), String> {
        for group in self.needs() {
            if !group.iter().any(|name| when.has(name)) {
                return Err(format!(
                    "emits {self:?}, which needs the capture (?<{}>..)",
                    group.join(">..) or (?<")
                ));
            }
        }
        if let Self::Value(name) = self
            && name.contains("{k}")
            && !when.has("k")
        {
            return Err(format!(
                "the value's name `{name}` needs the capture (?<k>..)"
            ));
        }
        Ok(())
    }

    /// The observation; nothing if a number cannot be read as one. The line's rank counts where the match tells none.
    pub(super) fn fill(&self, found: &Taken<'_>, line_rank: Option<u64>) -> Option<Observation> {
        let text = |name: &str| found.name(name);
        let count = |name: &str| text(name).and_then(count);
        let one_based = |name: &str, zero: &str| count(name).or_else(|| count(zero).map(|n| n + 1));
        let number = |name: &str| plain(text(name)?).parse::<f64>().ok();
        let progress = || {
            Some(Progress {
                done: one_based("done", "done0")?,
                of: one_based("total", "last"),
            })
        };
        let steps = || {
            Some(Progress {
                done: one_based("step", "step0")?,
                of: one_based("steps", "last_step"),
            })
        };
        let recompile = || {
            let rank = text("rank").map(str::to_owned);
            Some(Recompile {
                by: match (
                    rank.or_else(|| line_rank.map(|rank| rank.to_string())),
                    text("pid"),
                ) {
                    (Some(rank), _) => format!("rank {rank}"),
                    (None, Some(pid)) => format!("pid {pid}"),
                    (None, None) => String::new(),
                },
                frame: text("frame")?.to_owned(),
                attempt: one_based("attempt", "attempt0")?,
            })
        };
        Some(match self {
            Self::Start => Observation::Start,
            Self::Phase(phase) => Observation::Phase(*phase),
            Self::Epoch => Observation::Epoch {
                epoch: one_based("epoch", "epoch0")?,
                of: one_based("epochs", "last_epoch"),
            },
            Self::CountedEpoch => Observation::CountedEpoch {
                epoch: count("epoch")?,
                of: count("epochs"),
            },
            Self::FirstEpoch => Observation::FirstEpoch,
            Self::Planned => Observation::Planned {
                epochs: one_based("epochs", "last_epoch"),
                steps: one_based("steps", "last_step"),
            },
            Self::EpochsDone => Observation::EpochsDone {
                done: number("epochs_done")?,
                step: one_based("step", "step0"),
            },
            Self::EpochsTrained => Observation::EpochsTrained {
                done: number("epochs_done")?,
                step: one_based("step", "step0"),
            },
            Self::Step => {
                let Progress { done, of } = steps()?;
                Observation::Step { step: done, of }
            }
            Self::Train => Observation::Train(steps()?),
            Self::TrainBar => Observation::TrainBar(progress()?),
            Self::EpochBar => Observation::EpochBar(progress()?),
            Self::Validate => Observation::Validate(progress()?),
            Self::Validation => Observation::Validation(progress()?),
            Self::Bar => Observation::Bar(progress()?),
            Self::Result => Observation::Result {
                epochs_done: number("epochs_done"),
            },
            Self::ValidationEnd => Observation::ValidationEnd,
            Self::CheckpointEnd => Observation::CheckpointEnd,
            Self::EpochEnd => Observation::EpochEnd,
            Self::Recompile => Observation::Recompile(recompile()?),
            Self::RecompileLimit => Observation::RecompileLimit(recompile()?),
            Self::Fault(fault) => Observation::Fault(*fault),
            Self::Stopping(reason) => Observation::Stopping(*reason),
            Self::End(reason) => Observation::End(*reason),
            Self::Value(name) => Observation::Value {
                name: name.replace("{k}", text("k").unwrap_or_default()),
                value: number("value")?,
            },
            Self::CollectiveTimeout => Observation::CollectiveTimeout {
                seconds: count("milliseconds")? as f64 / 1000.0,
            },
        })
    }
}

/// A count as logs print it: `412`, `1,710`, `1.2k`.
pub(super) fn count(text: &str) -> Option<u64> {
    let digits = plain(text);
    let (number, scale) = match digits.as_bytes().last()? {
        b'k' | b'K' => (&digits[..digits.len() - 1], 1e3),
        b'M' => (&digits[..digits.len() - 1], 1e6),
        b'G' => (&digits[..digits.len() - 1], 1e9),
        b'T' => (&digits[..digits.len() - 1], 1e12),
        _ => return digits.parse().ok(),
    };
    let value: f64 = number.parse().ok()?;
    Some((value * scale) as u64)
}

/// A number without the commas between its thousands.
fn plain(text: &str) -> Cow<'_, str> {
    if text.contains(',') {
        Cow::Owned(text.replace(',', ""))
    } else {
        Cow::Borrowed(text)
    }
}

impl<'de> Deserialize<'de> for Emits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = Emits;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(WORDS)
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<Emits, E> {
                Ok(Emits(vec![
                    Emit::word(word).ok_or_else(|| E::unknown_variant(word, &[WORDS]))?,
                ]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Emits, A::Error> {
                let mut all = Vec::new();
                while let Some(Emits(some)) = list.next_element()? {
                    all.extend(some);
                }
                Ok(Emits(all))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Emits, A::Error> {
                let mut all = Vec::new();
                while let Some((word, of)) = map.next_entry::<String, String>()? {
                    let emit = Emit::word_of(&word, &of);
                    all.push(emit.ok_or_else(|| {
                        de::Error::custom(format!(
                            "`{word}: {of}` is not known here, expected {WORDS}"
                        ))
                    })?);
                }
                Ok(Emits(all))
            }
        }
        deserializer.deserialize_any(Words)
    }
}

impl Emit {
    fn word(word: &str) -> Option<Self> {
        Some(match word {
            "start" => Self::Start,
            "epoch" => Self::Epoch,
            "counted_epoch" => Self::CountedEpoch,
            "step" => Self::Step,
            "planned" => Self::Planned,
            "first_epoch" => Self::FirstEpoch,
            "epochs_done" => Self::EpochsDone,
            "epochs_trained" => Self::EpochsTrained,
            "train" => Self::Train,
            "train_bar" => Self::TrainBar,
            "epoch_bar" => Self::EpochBar,
            "validate" => Self::Validate,
            "validation" => Self::Validation,
            "bar" => Self::Bar,
            "validation_end" => Self::ValidationEnd,
            "result" => Self::Result,
            "checkpoint_end" => Self::CheckpointEnd,
            "epoch_end" => Self::EpochEnd,
            "recompile" => Self::Recompile,
            "recompile_limit" => Self::RecompileLimit,
            "collective_timeout" => Self::CollectiveTimeout,
            _ => return None,
        })
    }

    fn word_of(word: &str, of: &str) -> Option<Self> {
        let reason = || Ended::ALL.into_iter().find(|reason| reason.name() == of);
        Some(match word {
            "phase" => Self::Phase(Phase::named(of)?),
            "fault" => Self::Fault(Fault::ALL.into_iter().find(|fault| fault.name() == of)?),
            "stopping" => Self::Stopping(reason()?),
            "end" => Self::End(reason()?),
            "value" => Self::Value(of.to_owned()),
            _ => return None,
        })
    }
}
