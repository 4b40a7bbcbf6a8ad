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
        for ((node, series), values) in columns(scrapes, wanted) {
            let _ = writeln!(
                text,
                "      - {{series: '{}', values: '{}'}}",
                marked(number, node, series).replace('\'', "''"),
                run_lengths(&values, last)
            );
        }
    }
    text
}

/// When a series had which value, in order.
type Values<'a> = Vec<(usize, &'a str)>;

/// The values of each series of each node.
fn columns<'a>(
    scrapes: &'a [Scrape],
    wanted: &BTreeSet<String>,
) -> BTreeMap<(&'a str, &'a str), Values<'a>> {
    let mut columns: BTreeMap<(&str, &str), Values<'_>> = BTreeMap::new();
    for scrape in scrapes {
        let mut add = |series, value| {
            let values = columns.entry((scrape.node.as_str(), series)).or_default();
            values.push((step(scrape.at), value));
        };
        if scrape.target {
            add("up", if scrape.page.is_some() { "1" } else { "0" });
        }
        for line in scrape.page.iter().flat_map(|page| page.lines()) {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            if wanted.contains(name)
                && let Some((series, value)) = line.rsplit_once(' ')
            {
                add(series, value);
            }
        }
    }
    columns
}

/// A series as Prometheus stores it, with node and run marked: the label `run` comes first where a series has it.
fn marked(number: usize, node: &str, series: &str) -> String {
    let target = format!("instance=\"{number}{MARK}{node}\",job=\"training\"");
    let Some((name, labels)) = series.split_once('{') else {
        return format!("{series}{{{target}}}");
    };
    match labels.strip_prefix("run=\"") {
        Some(rest) => format!("{name}{{{target},run=\"{number}{MARK}{rest}"),
        None => format!("{name}{{{target},{labels}"),
    }
}

/// The values of a series, with repeats as promtool writes them; one that is gone is stale, once, as a scrape marks it.
fn run_lengths(values: &[(usize, &str)], last: usize) -> String {
    let mut text = String::new();
    // The evaluation that comes next, and how often the value before it stands already.
    let (mut next, mut run) = (0, None::<(&str, usize)>);
    let end = |text: &mut String, run: Option<(&str, usize)>| {
        if let Some((value, times)) = run {
            let _ = write!(text, "{value}x{} ", times - 1);
        }
    };
    for &(at, value) in values {
        let gap = at - next;
        if gap == 0 && run.is_some_and(|(before, _)| before == value) {
            run = run.map(|(value, times)| (value, times + 1));
        } else {
            end(&mut text, run);
            if gap > 0 {
                text += &absent(gap, run.is_some());
            }
            run = Some((value, 1));
        }
        next = at + 1;
    }
    end(&mut text, run);
    // A world that goes on after its scenario has nothing of it any more.
    text + absent(last + 2 - next, run.is_some()).trim_end()
}

/// So many evaluations without a value, after one with it or not.
fn absent(times: usize, after: bool) -> String {
    match (after, times) {
        (true, 1) => "stale ".to_owned(),
        (true, _) => format!("stale _x{} ", times - 1),
        (false, _) => format!("_x{times} "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_that_is_gone_is_marked_once() {
        let values = [(1, "5"), (2, "5"), (4, "6"), (7, "1")];
        assert_eq!(
            run_lengths(&values, 7),
            "_x1 5x1 stale 6x0 stale _x1 1x0 stale"
        );
        assert_eq!(
            run_lengths(&values, 9),
            "_x1 5x1 stale 6x0 stale _x1 1x0 stale _x2"
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
        let columns = columns(&scrapes, &wanted);
        let series: Vec<String> = columns
            .keys()
            .map(|(node, series)| marked(3, node, series))
            .collect();
        assert_eq!(
            series,
            [
                "training_step{instance=\"3|n1\",job=\"training\",run=\"3|a\"}",
                "up{instance=\"3|n1\",job=\"training\"}"
            ]
        );
    }
}
