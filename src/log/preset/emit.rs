//! The words of `emit`: what a rule's match says, and which captures it needs for that.
//!
//! Captures that count from 0 end in `0` (`epoch0`, `step0`, `done0`), totals that are a last index are `last_epoch`,
//! `last_step` and `last`: what comes out counts from 1.

use std::borrow::Cow;
use std::fmt;

use serde_yaml::Value;

use super::wrong::unknown;
use crate::job::Phase;
use crate::job::observation::{Ended, Fault, Observation, Progress, Recompile};
use crate::log::pattern::{Pattern, Taken};

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

/// The words that stand alone.
static WORDS: [(&str, Emit); 21] = [
    ("start", Emit::Start),
    ("epoch", Emit::Epoch),
    ("counted_epoch", Emit::CountedEpoch),
    ("first_epoch", Emit::FirstEpoch),
    ("epochs_done", Emit::EpochsDone),
    ("epochs_trained", Emit::EpochsTrained),
    ("planned", Emit::Planned),
    ("step", Emit::Step),
    ("train", Emit::Train),
    ("train_bar", Emit::TrainBar),
    ("epoch_bar", Emit::EpochBar),
    ("validate", Emit::Validate),
    ("validation", Emit::Validation),
    ("bar", Emit::Bar),
    ("validation_end", Emit::ValidationEnd),
    ("result", Emit::Result),
    ("checkpoint_end", Emit::CheckpointEnd),
    ("epoch_end", Emit::EpochEnd),
    ("recompile", Emit::Recompile),
    ("recompile_limit", Emit::RecompileLimit),
    ("collective_timeout", Emit::CollectiveTimeout),
];

/// Those that take a name.
const NAMING: [&str; 5] = ["phase", "fault", "stopping", "end", "value"];

/// As its author writes it.
impl fmt::Display for Emit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, name) = if let Self::Phase(phase) = self {
            ("phase", phase.name())
        } else if let Self::Fault(fault) = self {
            ("fault", fault.name())
        } else if let Self::Stopping(reason) = self {
            ("stopping", reason.name())
        } else if let Self::End(reason) = self {
            ("end", reason.name())
        } else if let Self::Value(name) = self {
            ("value", name.as_str())
        } else {
            let known = WORDS.iter().find(|(_, emit)| emit == self);
            return f.write_str(known.map_or("", |(word, _)| word));
        };
        write!(f, "{{{word}: {name}}}")
    }
}

impl Emit {
    /// The captures without which this can say nothing, one of each group, and those that it takes where they are.
    fn captures(&self) -> (&'static [&'static [&'static str]], &'static [&'static str]) {
        match self {
            Self::Epoch => (&[&["epoch", "epoch0"]], &["epochs", "last_epoch"]),
            Self::CountedEpoch => (&[&["epoch"]], &["epochs"]),
            Self::EpochsDone | Self::EpochsTrained => (&[&["epochs_done"]], &["step", "step0"]),
            Self::Planned => (&[&["epochs", "last_epoch", "steps", "last_step"]], &[]),
            Self::Step | Self::Train => (&[&["step", "step0"]], &["steps", "last_step"]),
            Self::TrainBar | Self::EpochBar | Self::Validate | Self::Validation | Self::Bar => {
                (&[&["done", "done0"]], &["total", "last"])
            }
            Self::Result => (&[], &["epochs_done"]),
            Self::Recompile | Self::RecompileLimit => {
                (&[&["frame"], &["attempt", "attempt0"]], &["rank", "pid"])
            }
            Self::Value(name) if name.contains("{k}") => (&[&["value"], &["k"]], &[]),
            Self::Value(_) => (&[&["value"]], &[]),
            Self::CollectiveTimeout => (&[&["milliseconds"]], &[]),
            Self::Start
            | Self::Phase(_)
            | Self::FirstEpoch
            | Self::ValidationEnd
            | Self::CheckpointEnd
            | Self::EpochEnd
            | Self::Fault(_)
            | Self::Stopping(_)
            | Self::End(_) => (&[], &[]),
        }
    }

    /// All that a rule says must have its captures, and each capture a name that some word takes.
    pub(super) fn check(all: &[Self], when: &Pattern) -> Result<(), String> {
        let written = |names: &[&str], between: &str| {
            let names: Vec<String> = names.iter().map(|name| format!("(?<{name}>..)")).collect();
            names.join(between)
        };
        let value = Self::Value("{k}".to_owned());
        let words = WORDS.iter().map(|(_, emit)| emit).chain([&value]);
        let known: Vec<&str> = words.flat_map(Self::takes).collect();
        let stray: Vec<&str> = when.names().filter(|name| !known.contains(name)).collect();
        let stray = written(&stray, " and ");
        for emit in all {
            for group in emit.captures().0 {
                if !group.iter().any(|name| when.has(name)) {
                    let needs = format!("`{emit}` needs the capture {}", written(group, " or "));
                    return Err(match stray.as_str() {
                        "" => needs,
                        stray => format!("{needs}; no word takes {stray}"),
                    });
                }
            }
        }
        if stray.is_empty() {
            return Ok(());
        }
        let taken: Vec<&str> = all.iter().flat_map(Self::takes).collect();
        let here = match taken.as_slice() {
            [] => "what stands here takes none".to_owned(),
            taken => format!("what stands here takes {}", written(taken, ", ")),
        };
        let way = "rename it, or write (?:..), which has no name";
        Err(format!("no word takes {stray}; {here}; {way}"))
    }

    fn takes(&self) -> impl Iterator<Item = &'static str> {
        let (needed, wanted) = self.captures();
        needed.iter().copied().flatten().chain(wanted).copied()
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

/// A word, or a list of them. The error tells where below it something is wrong, and what.
pub(super) fn words(written: &Value) -> Result<Vec<Emit>, (String, String)> {
    let mut all = Vec::new();
    match written {
        Value::String(word) => {
            let known = WORDS.iter().find(|(known, _)| known == word);
            let (_, emit) = known.ok_or_else(|| (String::new(), no_word(word)))?;
            all.push(emit.clone());
        }
        Value::Sequence(list) => {
            for (n, word) in list.iter().enumerate() {
                let some = words(word).map_err(|(at, what)| (format!("[{n}]{at}"), what))?;
                all.extend(some);
            }
        }
        Value::Mapping(map) => {
            for (word, name) in map {
                let word = word.as_str().unwrap_or_default();
                all.push(naming(word, name).map_err(|what| (format!(".{word}"), what))?);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Tagged(_) => {}
    }
    if all.is_empty() {
        let what = "says nothing; name a word, such as train, or a list of them";
        return Err((String::new(), what.to_owned()));
    }
    Ok(all)
}

fn naming(word: &str, name: &Value) -> Result<Emit, String> {
    if !NAMING.contains(&word) {
        return Err(no_word(word));
    }
    let name = name
        .as_str()
        .ok_or_else(|| format!("`{word}` takes a name, in quotes where it looks like a number"))?;
    let ended = || {
        let reason = Ended::ALL.into_iter().find(|reason| reason.name() == name);
        reason.ok_or_else(|| unknown("reason", name, &Ended::ALL.map(Ended::name)))
    };
    Ok(match word {
        "phase" => {
            let live = Phase::ALL.into_iter().filter(|phase| phase.live());
            let live: Vec<&str> = live.map(Phase::name).collect();
            Emit::Phase(Phase::named(name).ok_or_else(|| unknown("phase", name, &live))?)
        }
        "fault" => {
            let fault = Fault::ALL.into_iter().find(|fault| fault.name() == name);
            Emit::Fault(fault.ok_or_else(|| unknown("fault", name, &Fault::ALL.map(Fault::name)))?)
        }
        "stopping" => Emit::Stopping(ended()?),
        "end" => Emit::End(ended()?),
        _ => Emit::Value(name.to_owned()),
    })
}

fn no_word(word: &str) -> String {
    let alone = WORDS.iter().map(|(word, _)| (*word).to_owned());
    let naming = NAMING.iter().map(|word| format!("{{{word}: ..}}"));
    let all: Vec<String> = alone.chain(naming).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    unknown("word", word, &all)
}
