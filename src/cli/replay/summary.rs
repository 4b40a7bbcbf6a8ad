//! What stands below the timeline: how long each phase took, how much was understood, and what looked like progress
//! and was not.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::LazyLock;

use regex::Regex;

use super::cut;
use crate::job::Unix;
use crate::job::observation::Observation;

/// At most so many kinds of lines are told, and so many are kept apart.
const TOLD: usize = 8;
const KINDS: usize = 1024;

/// Collects it while the log is read.
#[derive(Debug, Default)]
pub(super) struct Summary {
    lines: u64,
    understood: u64,
    /// How often each word was said.
    said: BTreeMap<String, u64>,
    phase: Option<(&'static str, Unix)>,
    /// Seconds and how often, in the order in which they first came.
    phases: Vec<(&'static str, f64, u64)>,
    /// Lines that look alike, with one of them.
    missed: BTreeMap<String, (u64, String)>,
}

impl Summary {
    /// A line was read, and this was taken from it. One that gave no more than a value may be progress all the same.
    pub(super) fn line(&mut self, text: &str, said: &[(String, Observation)]) {
        static PROGRESS: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"(?i)\d+ */ *\d+|\d+ (?:out )?of \d+|\b(?:epoch|step|it|iter(?:ation)?)s?\W{0,3}\d|\d{1,3}%")
                .expect("a constant pattern")
        });
        // Numbers, and a bar as far as it is.
        static VARIES: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"[\d.,:]*\d|[^!-~]+|[#=>-]{2,}").expect("a constant pattern")
        });
        self.lines += 1;
        self.understood += u64::from(!said.is_empty());
        for (words, _) in said {
            let mut words = words.split([' ', '=']);
            let word = words.next().unwrap_or_default();
            let word = match (word, words.next()) {
                ("value" | "phase" | "fault" | "raised" | "end", Some(which)) => {
                    format!("{word} {which}")
                }
                (word, _) => word.to_owned(),
            };
            *self.said.entry(word).or_default() += 1;
        }
        let value = |(_, said): &(String, Observation)| matches!(said, Observation::Value { .. });
        if !said.iter().all(value) || !PROGRESS.is_match(text) {
            return;
        }
        let kind = VARIES.replace_all(text, " ");
        let kind: Vec<&str> = kind.split_whitespace().collect();
        let kind: String = kind.join(" ").chars().take(40).collect();
        if self.missed.len() < KINDS || self.missed.contains_key(&kind) {
            self.missed.entry(kind).or_insert_with(|| (0, cut(text))).0 += 1;
        }
    }

    /// The run is in this phase since `at`.
    pub(super) fn phase(&mut self, phase: &'static str, at: Unix) {
        if self.phase.is_some_and(|(now, _)| now == phase) {
            return;
        }
        self.close(at);
        self.phase = Some((phase, at));
    }

    fn close(&mut self, at: Unix) {
        if let Some((phase, since)) = self.phase.take() {
            match self.phases.iter_mut().find(|(name, ..)| *name == phase) {
                Some((_, seconds, times)) => {
                    *seconds += at - since;
                    *times += 1;
                }
                None => self.phases.push((phase, at - since, 1)),
            }
        }
    }

    /// Prints it for people; the log ended at `at`, if that is known.
    pub(super) fn print(&mut self, at: Option<Unix>, out: &mut dyn Write) -> io::Result<()> {
        if let Some(at) = at {
            self.close(at);
            for (phase, seconds, times) in &self.phases {
                writeln!(out, "{seconds:>10.2} s  {phase:<10}  {times} times")?;
            }
        }
        writeln!(
            out,
            "{} of {} lines said something",
            self.understood, self.lines
        )?;
        for (word, times) in &self.said {
            writeln!(out, "{times:>10} x  {word}")?;
        }
        let mut missed: Vec<_> = self.missed.values().collect();
        missed.sort_by_key(|(times, _)| std::cmp::Reverse(*times));
        if !missed.is_empty() {
            writeln!(
                out,
                "these look like progress, and no rule takes it from them:"
            )?;
        }
        for (times, line) in missed.iter().take(TOLD) {
            writeln!(out, "{times:>10} x  {line}")?;
        }
        if missed.len() > TOLD {
            writeln!(out, "{:>12}  kinds more", missed.len() - TOLD)?;
        }
        Ok(())
    }
}
