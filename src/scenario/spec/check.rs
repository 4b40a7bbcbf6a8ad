//! What a scenario's form alone does not promise. Checked while it is read, so that an error carries its place.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};

use super::{Fault, FaultKind, FileSpan, LogSpan, Node, ProcessSpan, Run, Scenario, Time, Word};
use crate::job::verdict::fleet::words;

/// Something that can be of the right form and still wrong.
pub(super) trait Check {
    /// What is wrong, and the way out.
    fn check(&self) -> Result<(), String>;
}

/// Of the right form, and right.
pub(super) struct Checked<T>(pub(super) T);

impl<'de, T: DeserializeOwned + Check> Deserialize<'de> for Checked<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = T::deserialize(deserializer)?;
        value.check().map_err(D::Error::custom)?;
        Ok(Self(value))
    }
}

/// A list of which each entry is right.
pub(super) fn all_checked<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Check,
{
    let all = Vec::<Checked<T>>::deserialize(deserializer)?;
    Ok(all.into_iter().map(|Checked(value)| value).collect())
}

/// Spans, each right and in order.
pub(super) fn some_checked<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Check + Begins,
{
    let spans: Vec<T> = all_checked(deserializer)?;
    if !spans.is_sorted_by(|a, b| a.at().0 <= b.at().0) {
        return Err(D::Error::custom("spans stand in order of their `at`"));
    }
    Ok(Some(spans))
}

/// A span that holds until the next one begins.
pub(super) trait Begins {
    fn at(&self) -> Time;
}

impl Begins for ProcessSpan {
    fn at(&self) -> Time {
        self.at
    }
}

impl Begins for FileSpan {
    fn at(&self) -> Time {
        self.at
    }
}

fn wrong<T>(what: &str) -> Result<T, String> {
    Err(what.to_owned())
}

impl Check for Scenario {
    fn check(&self) -> Result<(), String> {
        if self.duration.0 <= 0.0 {
            return wrong("duration: must be above 0");
        }
        if self.nodes.is_empty() {
            return wrong("nodes: a scenario has at least one node");
        }
        let known = |run: &Option<String>| {
            let runs = self.nodes.iter().flat_map(|node| &node.runs);
            run.as_ref()
                .is_none_or(|run| runs.clone().any(|known| known.run == *run))
        };
        let expected = self.expect.values().flatten().map(|expected| &expected.run);
        let mut named = expected.chain(self.verdicts.iter().map(|word| &word.run));
        match named.find(|run| !known(run)) {
            Some(run) => Err(format!(
                "no run `{}` in this scenario, but something is expected of it",
                run.as_deref().unwrap_or_default()
            )),
            None => Ok(()),
        }
    }
}

impl Check for Node {
    fn check(&self) -> Result<(), String> {
        match self.name.is_empty() {
            true => wrong("every node has a name: `name: NAME`"),
            false => Ok(()),
        }
    }
}

impl Check for Run {
    fn check(&self) -> Result<(), String> {
        match self.run.is_empty() {
            true => wrong("every run has a name: `run: NAME`"),
            false => Ok(()),
        }
    }
}

impl Check for LogSpan {
    fn check(&self) -> Result<(), String> {
        let kinds = [self.line.is_some(), self.recorded.is_some(), self.rotated];
        if kinds.iter().filter(|&&is| is).count() != 1 {
            return wrong("a log entry has exactly one of `line`, `recorded` and `rotated`");
        }
        if self.every.is_some_and(|every| every.0 <= 0.0) || self.stretch <= 0.0 {
            return wrong("`every` and `stretch` are above 0");
        }
        Ok(())
    }
}

impl Check for ProcessSpan {
    fn check(&self) -> Result<(), String> {
        if self.stretch <= 0.0 {
            return wrong("`stretch` is above 0");
        }
        if self.stopped > self.ranks || self.uninterruptible > self.ranks {
            return wrong("no more of the `ranks` than all can be `stopped` or `uninterruptible`");
        }
        Ok(())
    }
}

impl Check for FileSpan {
    fn check(&self) -> Result<(), String> {
        if self.stretch <= 0.0 {
            return wrong("`stretch` is above 0");
        }
        if self.rate > 0.0 && self.recorded.is_some() {
            return wrong("data files have either a `rate` or are `recorded`");
        }
        Ok(())
    }
}

impl Check for Fault {
    fn check(&self) -> Result<(), String> {
        if self.until.is_some_and(|until| until.0 <= self.at.0) {
            return wrong("a fault's `until` comes after its `at`");
        }
        if self.kind != FaultKind::ClockSkew && self.seconds != 0.0 {
            return wrong("`seconds` belong to `clock_skew`");
        }
        Ok(())
    }
}

impl Check for Word {
    fn check(&self) -> Result<(), String> {
        let known: Vec<&str> = words().collect();
        match known.contains(&self.word.as_str()) {
            true => Ok(()),
            false => Err(format!(
                "no verdict `{}`; known are {}",
                self.word,
                known.join(", ")
            )),
        }
    }
}
