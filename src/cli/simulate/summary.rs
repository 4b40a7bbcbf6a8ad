//! All scenarios together: how often somebody is woken for nothing, what is missed, how long a page takes; and the same
//! for other ways to find a hang, on the same series.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;

use super::Outcome;
use super::promtool::{Alert, Evaluated};

/// What one way to find hangs gave.
#[derive(Debug, Default)]
struct Figures {
    false_critical: usize,
    false_warnings: usize,
    missed: usize,
    found: usize,
    /// Seconds from the last progress or work to the page.
    took: Vec<f64>,
}

/// How long pages took in one phase, with a ceiling that was learned or not.
type Delays = BTreeMap<(&'static str, bool), Vec<f64>>;

/// The figures over all scenarios.
#[derive(Debug)]
pub struct Summary {
    baselines: Vec<String>,
    healthy: usize,
    healthy_seconds: f64,
    hangs: usize,
    ours: Figures,
    others: Vec<Figures>,
    /// Seconds from the moment at which the ceiling in force was reached to the page.
    over_ceiling: Vec<f64>,
    delays: Delays,
}

/// The alerts that say that a run stands still.
fn pages(alert: &Alert) -> bool {
    alert.severity == "critical" && alert.name.ends_with("Hung")
}

impl Summary {
    /// Nothing measured yet; the other ways are these rule files.
    pub fn new(baselines: &[PathBuf]) -> Self {
        let name = |file: &PathBuf| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.replace(".rules.yml", "").replace('_', " ")
        };
        Self {
            baselines: baselines.iter().map(name).collect(),
            others: baselines.iter().map(|_| Figures::default()).collect(),
            healthy: 0,
            healthy_seconds: 0.0,
            hangs: 0,
            ours: Figures::default(),
            over_ceiling: Vec::new(),
            delays: Delays::new(),
        }
    }

    /// Adds a scenario that was played.
    pub fn add(&mut self, outcome: &Outcome) {
        let expected: Vec<_> = outcome
            .scenario
            .expect
            .iter()
            .filter(|(name, _)| name.ends_with("Hung"))
            .collect();
        let hung = !expected.is_empty();
        if hung {
            self.hangs += 1;
        } else {
            self.healthy += 1;
            let runs: usize = outcome
                .scenario
                .nodes
                .iter()
                .map(|node| node.runs.len())
                .max()
                .unwrap_or(0);
            self.healthy_seconds += outcome.scenario.duration.0 * runs as f64;
        }
        let begins = expected
            .iter()
            .flat_map(|(_, spans)| spans.iter())
            .map(|span| span.from.0)
            .reduce(f64::min);
        self.ours
            .judge(&outcome.evaluated, outcome, begins, |alert| {
                !outcome.scenario.expect.contains_key(&alert.name)
            });
        if let Some(begins) = begins
            && let Some(page) = page_times(&outcome.evaluated)
                .into_iter()
                .find(|&page| page >= begins)
        {
            self.over_ceiling.push(page - begins);
            let before = outcome
                .scrapes
                .iter()
                .rev()
                .filter(|scrape| scrape.at <= page);
            let thought = before
                .flat_map(|scrape| scrape.runs.values())
                .find(|thought| thought.facts.phase.live());
            if let Some(thought) = thought {
                let took = self
                    .delays
                    .entry((thought.facts.phase.name(), thought.learned))
                    .or_default();
                took.extend(thought.still);
            }
        }
        for (figures, evaluated) in self.others.iter_mut().zip(&outcome.others) {
            figures.judge(evaluated, outcome, begins, |_| true);
        }
    }

    /// Writes the figures as Markdown.
    pub fn write(&self, out: &mut dyn Write) -> Result<()> {
        let hours = self.healthy_seconds / 3600.0;
        writeln!(
            out,
            "\n{} healthy scenarios, {hours:.0} simulated run-hours; {} with a hang.\n",
            self.healthy, self.hangs
        )?;
        writeln!(
            out,
            "| way | false critical | false warnings per healthy day | hangs found | missed | minutes from the last progress or work to the page: median, worst |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|")?;
        let all = std::iter::once(("training-exporter", &self.ours));
        let others = self.baselines.iter().map(String::as_str).zip(&self.others);
        for (name, figures) in all.chain(others) {
            writeln!(
                out,
                "| {name} | {} | {:.2} | {} | {} | {} |",
                figures.false_critical,
                figures.false_warnings as f64 / (hours / 24.0).max(f64::MIN_POSITIVE),
                figures.found,
                figures.missed,
                minutes(&figures.took),
            )?;
        }
        writeln!(
            out,
            "\nFrom the ceiling in force to the page, minutes (median, worst): {}.\n",
            minutes(&self.over_ceiling)
        )?;
        writeln!(
            out,
            "| phase | ceiling | hangs | minutes from the last progress or work to the page: median, worst |\n|---|---|---|---|"
        )?;
        for ((phase, learned), seconds) in &self.delays {
            let whence = if *learned { "learned" } else { "start value" };
            writeln!(
                out,
                "| {phase} | {whence} | {} | {} |",
                seconds.len(),
                minutes(seconds)
            )?;
        }
        Ok(())
    }
}

impl Figures {
    /// Adds what this way made of a scenario, whose hang (if any) is proven from `begins` on.
    fn judge(
        &mut self,
        evaluated: &Evaluated,
        outcome: &Outcome,
        begins: Option<f64>,
        wrong: impl Fn(&Alert) -> bool,
    ) {
        match begins {
            None => {
                let fired = |severity: &str| {
                    let of = |alert: &&Alert| alert.severity == severity && wrong(alert);
                    evaluated.alerts.keys().filter(of).count()
                };
                self.false_critical += fired("critical");
                self.false_warnings += fired("warning");
            }
            Some(begins) => {
                // The hang itself began when the run last moved.
                let stood = still(outcome, begins).map_or(begins, |still| begins - still);
                let pages = page_times(evaluated);
                self.false_critical += usize::from(pages.iter().any(|&page| page < stood));
                match pages.into_iter().find(|&page| page >= stood) {
                    Some(page) => {
                        self.found += 1;
                        self.took.push(page - stood);
                    }
                    None => self.missed += 1,
                }
            }
        }
    }
}

/// For how long everything had stood still at `t`, in seconds.
fn still(outcome: &Outcome, t: f64) -> Option<f64> {
    let before = outcome.scrapes.iter().rev().filter(|scrape| scrape.at <= t);
    before
        .flat_map(|scrape| scrape.runs.values())
        .find_map(|thought| thought.still)
}

/// When any page for a hang was firing, in order.
fn page_times(evaluated: &Evaluated) -> Vec<f64> {
    let mut times: Vec<f64> = evaluated
        .alerts
        .iter()
        .filter(|(alert, _)| pages(alert))
        .flat_map(|(_, times)| times.iter().copied())
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

fn minutes(seconds: &[f64]) -> String {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.get(sorted.len() / 2), sorted.last()) {
        (Some(median), Some(worst)) => format!("{:.1}, {:.1}", median / 60.0, worst / 60.0),
        _ => "-".to_owned(),
    }
}
