//! One rule, and all the rules that read one log.

use std::sync::Arc;

use serde::Deserialize;
use serde_yaml::Value;

use super::emit::{Emit, words};
use crate::job::observation::Observation;
use crate::log::lines::Line;
use crate::log::pattern::{Pattern, Taken};
use crate::log::sieve::{Sieve, Sifted};

/// A rule as its file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    pub(super) when: String,
    unless: Option<String>,
    nested: Option<bool>,
    emit: Value,
}

/// A checked rule.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) when: Pattern,
    unless: Option<Pattern>,
    nested: Option<bool>,
    emit: Vec<Emit>,
}

impl Written {
    /// Checks it. The error tells where in the rule something is wrong, and what.
    pub(super) fn check(&self) -> Result<Rule, (String, String)> {
        let at = |field: &'static str| move |what| (field.to_owned(), what);
        let when = Pattern::parse(&self.when).map_err(at(".when"))?;
        let unless = self.unless.as_deref().map(Pattern::parse).transpose();
        let emit = words(&self.emit).map_err(|(below, what)| (format!(".emit{below}"), what))?;
        Emit::check(&emit, &when).map_err(at(".when"))?;
        Ok(Rule {
            when,
            unless: unless.map_err(at(".unless"))?,
            nested: self.nested,
            emit,
        })
    }
}

impl Rule {
    /// Its patterns, and the fields in which they stand.
    pub(super) fn patterns(&self) -> impl Iterator<Item = (&'static str, &Pattern)> {
        let unless = self.unless.iter().map(|unless| ("unless", unless));
        std::iter::once(("when", &self.when)).chain(unless)
    }

    /// Takes each new match, unless something beside the pattern speaks against this line.
    pub(super) fn matches(&self, line: &Line<'_>, each: &mut dyn FnMut(&Taken<'_>)) {
        if self.nested.is_some_and(|nested| nested != line.nested) {
            return;
        }
        let mut admitted = false;
        self.when.matches(line.text, line.seen, &mut |taken| {
            // Asked only where it matters, and once.
            admitted = admitted
                || !self
                    .unless
                    .as_ref()
                    .is_some_and(|not| not.is_match(line.text));
            if admitted {
                each(taken);
            }
            admitted
        });
    }

    /// What a match says.
    pub(super) fn says(
        &self,
        taken: &Taken<'_>,
        rank: Option<u64>,
        said: &mut dyn FnMut(Observation),
    ) {
        let said_by = self.emit.iter().filter_map(|emit| emit.fill(taken, rank));
        said_by.for_each(said);
    }
}

/// The rules that read one log, in their order.
#[derive(Debug)]
pub(in crate::log) struct Rules {
    rules: Vec<Arc<Rule>>,
    sieve: Sieve,
}

impl Rules {
    pub(super) fn new(rules: Vec<Arc<Rule>>) -> Self {
        let sieve = Sieve::new(rules.iter().map(|rule| &rule.when.needs));
        Self { rules, sieve }
    }

    /// What the line says, in the order of the rules; `sifted` is what this log's lines left behind.
    pub(in crate::log) fn read(
        &self,
        line: &Line<'_>,
        sifted: &mut Sifted,
        said: &mut dyn FnMut(Observation),
    ) {
        for &index in self.sieve.sift(sifted, line) {
            let rule = &self.rules[index as usize];
            rule.matches(line, &mut |taken| rule.says(taken, line.rank, said));
        }
    }
}
