//! What stands below the timeline: how long each phase took, how much was understood, and what looked like progress
//! and was not.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::LazyLock;

use regex::Regex;

use crate::job::Unix;

/// At most so many kinds of lines are told, and so many are kept apart.
const TOLD: usize = 8;
const KINDS: usize = 1024;
/// Longer lines are cut, in characters.
const WIDTH: usize = 110;

/// Collects it while the log is read.
#[derive(Debug, Default)]
pub(super) struct Summary {
    lines: u64,
    understood: u64,
    phase: Option<(&'static str, Unix)>,
    /// Seconds and how often, in the order in which they first came.
    phases: Vec<(&'static str, f64, u64)>,
    /// Lines that look alike, with one of them.
    missed: BTreeMap<String, (u64, String)>,
}

impl Summary {
    /// A line was read, and something was taken from it or not.
    pub(super) fn line(&mut self, text: &str, understood: bool) {
        static PROGRESS: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"(?i)\d+ */ *\d+|\b(?:epoch|step|iter(?:ation)?)s?\W{0,3}\d|\d{1,3}%")
                .expect("a constant pattern")
        });
        static DIGITS: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"[\d.,:]*\d").expect("a constant pattern"));
        self.lines += 1;
        self.understood += u64::from(understood);
        if understood || !PROGRESS.is_match(text) {
            return;
        }
        let kind = DIGITS.replace_all(text, "0");
        let kind: String = kind.chars().filter(char::is_ascii).take(40).collect();
        if self.missed.len() < KINDS || self.missed.contains_key(&kind) {
            let cut = || {
                text.trim()
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(WIDTH)
                    .collect()
            };
            self.missed.entry(kind).or_insert_with(|| (0, cut())).0 += 1;
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

    /// Prints it for people; the log ended at `at`.
    pub(super) fn print(&mut self, at: Unix, out: &mut dyn Write) -> io::Result<()> {
        self.close(at);
        for (phase, seconds, times) in &self.phases {
            writeln!(out, "{seconds:>10.2} s  {phase:<10}  {times} times")?;
        }
        writeln!(
            out,
            "{} of {} lines said something",
            self.understood, self.lines
        )?;
        let mut missed: Vec<_> = self.missed.values().collect();
        missed.sort_by_key(|(times, _)| std::cmp::Reverse(*times));
        if !missed.is_empty() {
            writeln!(out, "these look like progress, and no rule fits:")?;
        }
        for (times, line) in missed.iter().take(TOLD) {
            writeln!(out, "{times:>10} x  {}", line)?;
        }
        if missed.len() > TOLD {
            writeln!(out, "{:>12}  kinds more", missed.len() - TOLD)?;
        }
        Ok(())
    }
}
