//! One YAML file -> the rules of one framework, checked, with samples that prove them.
//!
//! Pure: text in, rules out. A rule is a pattern and what its match says; each word of `emit` needs certain captures,
//! and that is checked when the file is read, as everything else is. Every rule that matches speaks, in their order.

use std::fmt;

use regex::{Captures, Regex, RegexSet};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::lines::{Line, Lines};
use crate::job::Phase;
use crate::job::observation::{Ended, Fault, Observation, Progress, Recompile};

/// The rules of one framework, or of a layer that is common to many.
#[derive(Debug)]
pub struct Preset {
    /// Its name: `framework` in `training_run_info`, and the word for `--preset`.
    pub name: String,
    /// It speaks beside whichever preset is chosen.
    pub layer: bool,
    detect: RegexSet,
    rules: RegexSet,
    compiled: Vec<(Regex, Vec<Emit>)>,
    samples: Vec<Sample>,
}

/// The file's form.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    /// For people: what this covers, and from where it is known.
    #[expect(dead_code, reason = "read by people, demanded from every file")]
    about: String,
    #[serde(default)]
    layer: bool,
    /// A line that fits one of these chooses this preset.
    #[serde(default)]
    detect: Vec<String>,
    rules: Vec<Rule>,
    samples: Vec<Sample>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    when: String,
    emit: Emits,
}

/// Bytes as the framework writes them, and what must be read from them.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    line: String,
    gives: Vec<String>,
}

/// A word, or a list of them.
#[derive(Debug)]
struct Emits(Vec<Emit>);

/// What a match says; the captures fill it.
#[derive(Clone, Debug, PartialEq)]
enum Emit {
    Start,
    Phase(Phase),
    Epoch,
    Step,
    Validation,
    Bar,
    ValidationEnd,
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

const WORDS: &str = "start, epoch, step, validation, bar, validation_end, checkpoint_end, epoch_end, recompile, \
                     recompile_limit, collective_timeout, or one of {phase: ..}, {fault: ..}, {stopping: ..}, \
                     {end: ..}, {value: ..}";

impl Preset {
    /// Reads one file. The error names the line where it can, and what to do.
    pub fn parse(yaml: &str) -> Result<Self, String> {
        let file: File = serde_yaml::from_str(yaml).map_err(|e| e.to_string())?;
        let mut compiled = Vec::new();
        for Rule { when, emit } in file.rules {
            let regex = Regex::new(&ascii(&when)).map_err(|e| format!("rule `{when}`: {e}"))?;
            for emit in &emit.0 {
                emit.check(&regex)
                    .map_err(|e| format!("rule `{when}`: {e}"))?;
            }
            compiled.push((regex, emit.0));
        }
        let set = |patterns: &[String]| RegexSet::new(patterns).map_err(|e| e.to_string());
        let rules: Vec<String> = compiled
            .iter()
            .map(|(regex, _)| regex.as_str().to_owned())
            .collect();
        Ok(Self {
            name: file.name,
            layer: file.layer,
            detect: set(&file
                .detect
                .iter()
                .map(|pattern| ascii(pattern))
                .collect::<Vec<_>>())
            .map_err(|e| format!("detect: {e}"))?,
            rules: set(&rules)?,
            compiled,
            samples: file.samples,
        })
    }

    /// This line shows that the log is of this framework.
    pub fn detects(&self, line: &Line<'_>) -> bool {
        self.detect.is_match(line.text)
    }

    /// What the line says, in the order of the rules.
    pub fn read(&self, line: &Line<'_>, said: &mut dyn FnMut(Observation)) {
        for index in self.rules.matches(line.text) {
            let (regex, emits) = &self.compiled[index];
            for found in regex.captures_iter(line.text) {
                let end = found.get(0).map_or(0, |all| all.end());
                if end > line.seen {
                    emits
                        .iter()
                        .filter_map(|emit| emit.fill(&found))
                        .for_each(&mut *said);
                }
            }
        }
    }

    /// Runs the samples: each must give exactly what it says.
    pub fn prove(&self) -> Result<(), String> {
        if self.samples.is_empty() {
            return Err(format!(
                "preset {}: has no samples, so nothing shows that its rules are right; add lines of a real log and what each gives",
                self.name
            ));
        }
        for Sample { line, gives } in &self.samples {
            let mut got = Vec::new();
            let mut each =
                |line: Line<'_>| self.read(&line, &mut |said| got.push(said.to_string()));
            let mut lines = Lines::default();
            lines.push(line.as_bytes(), &mut each);
            lines.rest(&mut each);
            if got != *gives {
                return Err(format!(
                    "preset {}: sample {line:?} gives {got:?}, but should give {gives:?}",
                    self.name
                ));
            }
        }
        Ok(())
    }
}

impl Emit {
    /// The captures without which this can say nothing: one of each group.
    fn needs(&self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Epoch => &[&["epoch", "epoch0"]],
            Self::Step => &[&["step", "step0"]],
            Self::Validation | Self::Bar => &[&["done"]],
            Self::Recompile | Self::RecompileLimit => &[&["frame"], &["attempt"]],
            Self::Value(_) => &[&["value"]],
            Self::CollectiveTimeout => &[&["milliseconds"]],
            Self::Start
            | Self::Phase(_)
            | Self::ValidationEnd
            | Self::CheckpointEnd
            | Self::EpochEnd
            | Self::Fault(_)
            | Self::Stopping(_)
            | Self::End(_) => &[],
        }
    }

    fn check(&self, regex: &Regex) -> Result<(), String> {
        let has = |name: &str| regex.capture_names().flatten().any(|n| n == name);
        for group in self.needs() {
            if !group.iter().any(|name| has(name)) {
                return Err(format!(
                    "emits {self:?}, which needs the capture (?<{}>..)",
                    group.join(">..) or (?<")
                ));
            }
        }
        if let Self::Value(name) = self
            && name.contains("{k}")
            && !has("k")
        {
            return Err(format!(
                "the value's name `{name}` needs the capture (?<k>..)"
            ));
        }
        Ok(())
    }

    /// The observation; nothing if a number cannot be read as one.
    fn fill(&self, found: &Captures<'_>) -> Option<Observation> {
        let text = |name: &str| found.name(name).map(|m| m.as_str());
        let count = |name: &str| text(name).and_then(count);
        let one_based = |name: &str, zero: &str| count(name).or_else(|| count(zero).map(|n| n + 1));
        let progress = || {
            Some(Progress {
                done: count("done")?,
                of: count("total"),
            })
        };
        let recompile = || {
            Some(Recompile {
                by: match (text("rank"), text("pid")) {
                    (Some(rank), _) => format!("rank {rank}"),
                    (None, Some(pid)) => format!("pid {pid}"),
                    (None, None) => String::new(),
                },
                frame: text("frame")?.to_owned(),
                attempt: count("attempt")?,
            })
        };
        Some(match self {
            Self::Start => Observation::Start,
            Self::Phase(phase) => Observation::Phase(*phase),
            Self::Epoch => Observation::Epoch {
                epoch: one_based("epoch", "epoch0")?,
                of: count("epochs"),
            },
            Self::Step => Observation::Step {
                step: one_based("step", "step0")?,
                of: count("steps"),
            },
            Self::Validation => Observation::Validation(progress()?),
            Self::Bar => Observation::Bar(progress()?),
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
                value: text("value")?.replace(',', "").parse().ok()?,
            },
            Self::CollectiveTimeout => Observation::CollectiveTimeout {
                seconds: count("milliseconds")? as f64 / 1000.0,
            },
        })
    }
}

/// The pattern with `\b`, `\d`, `\s` and `\w` in their ASCII sense. Logs count in ASCII, and a Unicode word boundary
/// would take the fast engines away from every line with a bar's glyphs in it.
fn ascii(pattern: &str) -> String {
    let mut plain = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('b') => plain.push_str(r"(?-u:\b)"),
            Some('d') => plain.push_str("[0-9]"),
            Some('s') => plain.push_str(r"[\t ]"),
            Some('w') => plain.push_str("[0-9A-Za-z_]"),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push('\\'),
        }
    }
    plain
}

/// A count as logs print it: `412`, `1,710`, `1.2k`.
fn count(text: &str) -> Option<u64> {
    let digits = text.replace(',', "");
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
            "step" => Self::Step,
            "validation" => Self::Validation,
            "bar" => Self::Bar,
            "validation_end" => Self::ValidationEnd,
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

#[cfg(test)]
mod tests;
