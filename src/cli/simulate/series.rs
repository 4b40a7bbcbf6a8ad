//! Scrapes -> series as a promtool test writes them.
//!
//! Several scenarios share one world, as runs share a Prometheus: each rule is evaluated once for all of them, which
//! costs little more than for one. Their nodes and runs are marked with a number, so that none meets another's. Where
//! rules look at a whole fleet that would not do: such a scenario has a world of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::scenario::simulate::{SCRAPE, Scrape};

/// What stands between a scenario's number and the name of its node or run.
const MARK: char = '|';

/// At which evaluation a scrape is seen.
pub(super) fn step(at: f64) -> usize {
    (at / SCRAPE).round() as usize
}

/// The scenario's number and the name in a label value of a shared world.
pub(super) fn unmarked(value: &str) -> Option<(usize, &str)> {
    let (number, name) = value.split_once(MARK)?;
    Some((number.parse().ok()?, name))
}

/// Rules may tell from these scrapes something of the fleet: at some time no exporter at all answers, or runs wait for
/// storage, which is counted over all runs.
pub(super) fn concerns_the_fleet(scrapes: &[Scrape]) -> bool {
    let waits = |line: &str| {
        line.starts_with("training_processes_in_state{")
            && line.contains("state=\"uninterruptible\"")
            && !line.ends_with(" 0")
    };
    let mut answered = BTreeMap::new();
    for scrape in scrapes {
        *answered.entry(step(scrape.at)).or_insert(false) |= scrape.page.is_some();
        if scrape.page.iter().flat_map(|page| page.lines()).any(waits) {
            return true;
        }
    }
    answered.values().any(|answered| !answered)
}

/// The input series of a test in which these scenarios share a world; only of metrics that somebody asks for.
pub(super) fn input<S: AsRef<[Scrape]>>(worlds: &[S], wanted: &BTreeSet<String>) -> String {
    let mut text = String::new();
    for (number, scrapes) in worlds.iter().enumerate() {
        let scrapes = scrapes.as_ref();
        let last = scrapes.last().map_or(0, |scrape| step(scrape.at));
        for (series, values) in columns(number, scrapes, wanted) {
            let _ = writeln!(
                text,
                "      - {{series: '{}', values: '{}'}}",
                series.replace('\'', "''"),
                run_lengths(&values, last)
            );
        }
    }
    text
}

/// The values of each series, by evaluation.
fn columns<'a>(
    number: usize,
    scrapes: &'a [Scrape],
    wanted: &BTreeSet<String>,
) -> BTreeMap<String, BTreeMap<usize, &'a str>> {
    let mut columns: BTreeMap<String, BTreeMap<usize, &str>> = BTreeMap::new();
    for scrape in scrapes {
        let target = format!(
            "instance=\"{number}{MARK}{}\",job=\"training\"",
            scrape.node
        );
        let mut add = |series: String, value| {
            columns
                .entry(series)
                .or_default()
                .insert(step(scrape.at), value);
        };
        if scrape.target {
            let up = if scrape.page.is_some() { "1" } else { "0" };
            add(format!("up{{{target}}}"), up);
        }
        for line in scrape.page.iter().flat_map(|page| page.lines()) {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            let Some((series, value)) = line.rsplit_once(' ').filter(|_| wanted.contains(name))
            else {
                continue;
            };
            add(
                match series.split_once('{') {
                    Some((_, labels)) => format!("{name}{{{target},{}", marked(number, labels)),
                    None => format!("{name}{{{target}}}"),
                },
                value,
            );
        }
    }
    columns
}

/// The labels of a series, with the run's name marked: the label `run` comes first where a series has it.
fn marked(number: usize, labels: &str) -> String {
    match labels.strip_prefix("run=\"") {
        Some(rest) => format!("run=\"{number}{MARK}{rest}"),
        None => labels.to_owned(),
    }
}

/// The values of a series, with repeats as promtool writes them; one that is gone is stale, once, as a scrape marks it.
fn run_lengths(values: &BTreeMap<usize, &str>, last: usize) -> String {
    let mut text = String::new();
    let mut n = 0;
    let mut present = false;
    while n <= last {
        let now = values.get(&n).copied();
        let same = (n..=last)
            .take_while(|next| values.get(next).copied() == now)
            .count();
        let _ = match now {
            Some(number) => write!(text, "{number}x{} ", same - 1),
            None if present && same > 1 => write!(text, "stale _x{} ", same - 1),
            None if present => write!(text, "stale "),
            None => write!(text, "_x{same} "),
        };
        present = now.is_some();
        n += same;
    }
    // A world that goes on after its scenario has nothing of it any more.
    if present {
        text.push_str("stale");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_that_is_gone_is_marked_once() {
        let values = BTreeMap::from([(1, "5"), (2, "5"), (4, "6"), (7, "1")]);
        assert_eq!(
            run_lengths(&values, 7),
            "_x1 5x1 stale 6x0 stale _x1 1x0 stale"
        );
    }

    #[test]
    fn only_runs_and_nodes_are_marked() {
        let page = "training_step{run=\"a\"} 5\ntraining_other 1\n";
        let scrape = Scrape {
            at: 0.0,
            node: "n1".to_owned(),
            page: Some(page.to_owned()),
            target: true,
            runs: BTreeMap::new(),
        };
        let wanted = BTreeSet::from(["training_step".to_owned()]);
        let scrapes = [scrape];
        let columns = columns(3, &scrapes, &wanted);
        let series: Vec<&String> = columns.keys().collect();
        assert_eq!(
            series,
            [
                "training_step{instance=\"3|n1\",job=\"training\",run=\"3|a\"}",
                "up{instance=\"3|n1\",job=\"training\"}"
            ]
        );
    }
}
