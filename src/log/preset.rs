//! One YAML file -> the rules of one framework, checked, with samples that prove them.
//!
//! Pure: text in, rules out. A rule is a pattern and what its match says; each word of `emit` needs certain captures,
//! and that is checked when the file is read, as everything else is. Every rule that matches speaks, in their order.
//!
//! ```yaml
//! name: mine
//! about: what this covers, and from where it is known
//! extends: transformers        # its rules speak, too, before these
//! detect: ['^my banner']       # each pattern that was seen counts for this preset; most of them win
//! rules:
//!   - when: '^ *\d+%\|[^|]*\| *(?<step>\d+)/(?<steps>\d+) \['
//!     unless: 'examples/s'     # not where this matches, too
//!     nested: false            # only a bar that stands alone (true: one below another)
//!     emit: train
//! samples:
//!   - line: ' 50%|##  | 5/10 [00:01<00:01,  5.00it/s]'
//!     gives: [train 5/10]
//! ```
//!
//! | word | captures | what it says |
//! | --- | --- | --- |
//! | `start` | | a new process has begun to write |
//! | `{phase: P}` | | the run is in this phase now |
//! | `epoch` | `epoch`, `epochs` | this epoch is under way |
//! | `counted_epoch` | `epoch`, `epochs` | the same where it is not known whether the log counts from 0: once it says 0 |
//! | `first_epoch` | | a fresh run has begun: it is in its first epoch, until a pass is over and nothing tells more |
//! | `epochs_done` | `epochs_done`, `step` | so many epochs are done, with a fraction; with the step, how long one is |
//! | `epochs_trained` | `epochs_done`, `step` | the same from a line of the training, which shows that it goes on where no bar does |
//! | `planned` | `epochs`, `steps` | so many are planned; where both are told, they tell how long an epoch is |
//! | `step` | `step`, `steps` | so many steps are done; says nothing of the phase |
//! | `train` | `step`, `steps` | the same, and a new number shows that training goes on |
//! | `train_bar` | `done`, `total` | the same for a bar that begins anew with each epoch |
//! | `epoch_bar` | `done`, `total` | the same, and that of the epoch's validation where it begins anew in an epoch |
//! | `validate` | `done`, `total` | how far a validation is, which this begins where none is under way |
//! | `validation` | `done`, `total` | how far it is, where another word has begun it |
//! | `bar` | `done`, `total` | how far the phase under way is, where its text is the same in both |
//! | `validation_end` | | the pass is complete |
//! | `result` | `epochs_done` | the result of the oldest pass that has none yet: it may come late, from a buffer |
//! | `checkpoint_end`, `epoch_end` | | what they say |
//! | `{value: NAME}` | `value`, `k` | any other number; `{k}` in the name stands for the capture |
//! | `{fault: F}`, `{stopping: R}`, `{end: R}` | | what went wrong, why it will end, that and why it has |
//! | `recompile`, `recompile_limit` | `frame`, `attempt`, `rank`, `pid` | Dynamo compiled again, or gave up |
//! | `collective_timeout` | `milliseconds` | how long a collective may wait |
//!
//! `epoch`, `step` and `done` may be `epoch0`, `step0` and `done0`, which count from 0; `epochs`, `steps` and `total`
//! may be `last_epoch`, `last_step` and `last`, which name the last index; `attempt0` is the attempt before.

mod emit;
pub(super) mod rule;
pub mod wrong;

use std::sync::Arc;

use serde::Deserialize;

use super::lines::{Line, Lines};
use super::pattern::Pattern;
use super::reader::GENERIC;
use super::sieve::Sifted;
use rule::{Rule, Rules, Written};
use wrong::{Wrong, entries, unknown};

/// The rules of one framework, or of a layer that is common to many.
#[derive(Debug)]
pub struct Preset {
    /// Its name: `framework` in `training_run_info`, and the word for `--preset`.
    pub name: String,
    /// It speaks beside whichever preset is chosen.
    pub layer: bool,
    /// The preset whose rules it takes over.
    pub extends: Option<Arc<Preset>>,
    /// Patterns of lines that show this framework.
    pub(super) detect: Vec<Pattern>,
    rules: Vec<Arc<Rule>>,
    /// So many of them are those of the preset that it extends.
    inherited: usize,
    samples: Vec<Sample>,
    /// The file, which tells it from another one of its name.
    text: String,
}

impl PartialEq for Preset {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.extends == other.extends
    }
}

/// The file's form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    /// For people: what this covers, and from where it is known.
    #[expect(dead_code, reason = "read by people, demanded from every file")]
    about: String,
    extends: Option<String>,
    #[serde(default)]
    layer: bool,
    /// Lines that fit one of these choose this preset.
    #[serde(default)]
    detect: Vec<String>,
    rules: Vec<Written>,
    #[serde(default)]
    samples: Vec<Sample>,
}

/// Bytes as the framework writes them, and what must be read from them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    line: String,
    gives: Vec<String>,
}

/// What one rule made of a line, for people.
#[derive(Debug)]
pub struct Explained {
    /// The rule's pattern.
    pub when: String,
    /// The part of the line that fits it.
    pub matched: String,
    /// The captures and what they took.
    pub captures: Vec<(String, String)>,
    /// What it says; nothing where a number could not be read as one.
    pub said: Vec<String>,
}

impl Preset {
    /// Reads one file, which may extend one of those that are `known`. The error tells all that is wrong, each with its
    /// place and what to do.
    pub fn parse(yaml: &str, known: &[Arc<Self>]) -> Result<Self, Vec<Wrong>> {
        let file: File = serde_yaml::from_str(yaml).map_err(|e| misshapen(yaml, &e, known))?;
        let (mut wrong, mut detect, mut extends) = (Vec::new(), Vec::new(), None);
        if let Some(name) = &file.extends {
            match base(yaml, name, known) {
                Ok(base) => extends = Some(base),
                Err(e) => wrong.push(e),
            }
        }
        for (n, pattern) in file.detect.iter().enumerate() {
            match shown_by(yaml, n, pattern) {
                Ok(pattern) => detect.push(pattern),
                Err(e) => wrong.push(e),
            }
        }
        let mut rules = extends
            .as_ref()
            .map_or(Vec::new(), |base| base.rules.clone());
        let inherited = rules.len();
        for (n, rule) in file.rules.iter().enumerate() {
            match checked(yaml, n, rule) {
                Ok(rule) => rules.push(Arc::new(rule)),
                Err(e) => wrong.push(e),
            }
        }
        if !wrong.is_empty() {
            return Err(Wrong::in_order(wrong));
        }
        Ok(Self {
            name: file.name,
            layer: file.layer,
            extends,
            detect,
            rules,
            inherited,
            samples: file.samples,
            text: yaml.to_owned(),
        })
    }

    /// The name of the preset that a file extends, if it is one that does.
    pub fn base_of(yaml: &str) -> Option<String> {
        let line = yaml
            .lines()
            .find_map(|line| line.strip_prefix("extends:"))?;
        let name = line.split('#').next()?.trim();
        Some(name.trim_matches(['"', '\'']).to_owned())
    }

    /// No line can show it, so it reads only what it is named for.
    pub fn must_be_named(&self) -> bool {
        self.detect.is_empty() && !self.layer && self.name != GENERIC
    }

    /// This line speaks for this framework.
    pub fn detects(&self, line: &Line<'_>) -> bool {
        self.detect
            .iter()
            .any(|pattern| pattern.is_match(line.text))
    }

    /// Its rules and those of the layers, by which a log is read.
    pub(super) fn rules_with(&self, layers: &[Arc<Self>]) -> Rules {
        let layers = layers.iter().flat_map(|layer| &layer.rules);
        Rules::new(self.rules.iter().chain(layers).cloned().collect())
    }

    /// Builds all patterns that are its own; what is too large is refused.
    fn build(&self, yaml: &str) -> Vec<Wrong> {
        let detect = (0..).zip(&self.detect);
        let detect = detect.map(|(n, pattern)| (format!("detect[{n}]"), pattern));
        let own = self.rules[self.inherited..].iter().enumerate();
        let rules = own.flat_map(|(n, rule)| {
            let patterns = rule.patterns();
            patterns.map(move |(field, pattern)| (format!("rules[{n}].{field}"), pattern))
        });
        let built = detect
            .chain(rules)
            .map(|(at, pattern)| (at, pattern.build()));
        built
            .filter_map(|(at, built)| Some(Wrong::at(yaml, &at, &built.err()?)))
            .collect()
    }

    /// Which rules fit the line, what they took from it and what they say.
    pub fn explain(&self, line: &Line<'_>) -> Vec<Explained> {
        let mut all = Vec::new();
        for rule in &self.rules {
            rule.matches(line, &mut |taken| {
                let mut said = Vec::new();
                rule.says(taken, line.rank, &mut |what| said.push(what.to_string()));
                let captures = taken.captures();
                all.push(Explained {
                    when: rule.when.written.clone(),
                    matched: taken.all().to_owned(),
                    captures: captures
                        .map(|(name, value)| (name.to_owned(), value.to_owned()))
                        .collect(),
                    said,
                });
            });
        }
        all
    }

    /// Builds its patterns and runs the samples: each must give exactly what it says. The error tells all that do not,
    /// with their places in the text of its file.
    pub fn prove(&self, yaml: &str) -> Result<(), Vec<Wrong>> {
        let mut wrong = self.build(yaml);
        if self.samples.is_empty() {
            let what = "no `samples:`, so nothing shows that the rules are right; add lines of a real log and what each \
                        gives";
            wrong.push(Wrong::at(yaml, "", what));
        }
        if wrong.is_empty() {
            let rules = self.rules_with(&[]);
            let samples = self.samples.iter().enumerate();
            let bad =
                samples.filter_map(|(n, sample)| Some((n, self.try_out(sample, &rules).err()?)));
            wrong.extend(bad.map(|(n, what)| Wrong::at(yaml, &format!("samples[{n}]"), &what)));
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(Wrong::in_order(wrong)),
        }
    }

    fn try_out(&self, Sample { line, gives }: &Sample, rules: &Rules) -> Result<(), String> {
        let (mut got, mut sifted) = (Vec::new(), Sifted::default());
        let mut fits = String::new();
        let mut each = |line: Line<'_>| {
            rules.read(&line, &mut sifted, &mut |said| got.push(said.to_string()));
            for found in self.explain(&line) {
                let said = match found.said.join(", ") {
                    said if said.is_empty() => "nothing, since a number cannot be read,".to_owned(),
                    said => said,
                };
                fits += &format!("\n    {said} is what `{}` says", found.when);
            }
        };
        let mut lines = Lines::default();
        lines.push(line.as_bytes(), &mut each);
        lines.rest(&mut each);
        if got == *gives {
            return Ok(());
        }
        if fits.is_empty() {
            fits += ": no rule fits it";
        }
        let (got, gives) = (got.join(", "), gives.join(", "));
        Err(format!("{line:?} gives [{got}], and not [{gives}]{fits}"))
    }
}

/// All that can be told of a file that has not the form of a preset.
fn misshapen(yaml: &str, e: &serde_yaml::Error, known: &[Arc<Preset>]) -> Vec<Wrong> {
    let mut all = vec![Wrong::form(e)];
    all.extend(Preset::base_of(yaml).and_then(|name| base(yaml, &name, known).err()));
    for (n, pattern) in entries::<String>(yaml, "detect").into_iter().enumerate() {
        all.extend(
            pattern
                .and_then(|pattern| shown_by(yaml, n, &pattern))
                .err(),
        );
    }
    for (n, rule) in entries::<Written>(yaml, "rules").into_iter().enumerate() {
        all.extend(rule.and_then(|rule| checked(yaml, n, &rule)).err());
    }
    let samples = entries::<Sample>(yaml, "samples").into_iter();
    all.extend(samples.filter_map(Result::err));
    Wrong::in_order(all)
}

fn base(yaml: &str, name: &str, known: &[Arc<Preset>]) -> Result<Arc<Preset>, Wrong> {
    let base = known.iter().find(|preset| preset.name == name).cloned();
    base.ok_or_else(|| {
        let known = known.iter().filter(|preset| !preset.layer);
        let mut known: Vec<&str> = known.map(|preset| preset.name.as_str()).collect();
        known.sort_unstable();
        Wrong::at(yaml, "extends", &unknown("preset", name, &known))
    })
}

fn shown_by(yaml: &str, n: usize, pattern: &str) -> Result<Pattern, Wrong> {
    let pattern = Pattern::parse(pattern);
    pattern.map_err(|what| Wrong::at(yaml, &format!("detect[{n}]"), &what))
}

fn checked(yaml: &str, n: usize, rule: &Written) -> Result<Rule, Wrong> {
    let rule = rule.check();
    rule.map_err(|(field, what)| Wrong::at(yaml, &format!("rules[{n}]{field}"), &what))
}

#[cfg(test)]
mod tests;
