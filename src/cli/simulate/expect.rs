//! What was expected of a scenario, beside what came of it.

use std::collections::{BTreeMap, BTreeSet};

use super::promtool::{Alert, Evaluated};
use super::{called, clock};
use crate::job::verdict::{Facts, judge};
use crate::scenario::simulate::{SCRAPE, Scrape, Thought};
use crate::scenario::spec::{Expected, Scenario};

/// So long a scrape is looked past, in seconds: the rules' `last_over_time(...[3m])`.
const BRIDGED: f64 = 180.0;

/// Where the alerts are not as expected.
pub(super) fn unexpected(scenario: &Scenario, evaluated: &Evaluated) -> Vec<String> {
    let mut differences = Vec::new();
    for (alert, times) in &evaluated.alerts {
        let spans = scenario
            .expect
            .get(&alert.name)
            .map_or(&[][..], Vec::as_slice);
        let may = |t: f64| {
            spans
                .iter()
                .any(|span| concerns(span, alert) && covers(span, t, scenario.duration.0))
        };
        if let Some(&t) = times.iter().find(|&&t| !may(t)) {
            differences.push(format!(
                "{}: {} fires, and should not",
                clock(t),
                called(alert)
            ));
        }
    }
    for (name, spans) in &scenario.expect {
        for span in spans {
            let fired: BTreeSet<u64> = evaluated
                .alerts
                .iter()
                .filter(|(alert, _)| alert.name == *name && concerns(span, alert))
                .flat_map(|(_, times)| times.iter().map(|&t| t as u64))
                .collect();
            let until = span.until.map_or(scenario.duration.0, |until| until.0);
            let mut must = evaluations(scenario.duration.0)
                .filter(|&t| t >= span.from.0 + span.slack.0 && t < until);
            if let Some(t) = must.find(|&t| !fired.contains(&(t as u64))) {
                differences.push(format!("{}: {name} should fire, and does not", clock(t)));
            }
        }
    }
    differences
}

fn concerns(span: &Expected, alert: &Alert) -> bool {
    let severity = span.severity.as_ref();
    span.run.as_ref().is_none_or(|run| *run == alert.run)
        && severity.is_none_or(|severity| *severity == alert.severity)
}

/// Where a verdict is not the one that must hold.
pub(super) fn other_words(scenario: &Scenario, evaluated: &Evaluated) -> Vec<String> {
    let mut differences = Vec::new();
    for expected in &scenario.verdicts {
        let whose = |run: &&String| expected.run.as_ref().is_none_or(|named| named == *run);
        let mut runs: Vec<&String> = evaluated.verdicts.keys().filter(whose).collect();
        // A run of which nothing was ever said.
        runs.extend(expected.run.as_ref().filter(|_| runs.is_empty()));
        let must = |t: &f64| {
            let until = expected.until.map_or(f64::INFINITY, |until| until.0);
            expected.from.0 + expected.slack.0 <= *t && *t < until
        };
        for run in runs {
            let said = |t: f64| {
                let said = evaluated.verdicts.get(run)?.get(&(t as u64))?;
                Some(said.as_str())
            };
            let said = |t: f64| said(t).unwrap_or("nothing");
            let mut times = evaluations(scenario.duration.0).filter(must);
            if let Some(t) = times.find(|&t| said(t) != expected.word) {
                differences.push(format!(
                    "{}: {run} should be {}, and is {}",
                    clock(t),
                    expected.word,
                    said(t)
                ));
            }
        }
    }
    differences
}

/// When rules are evaluated in a scenario of so many seconds.
fn evaluations(seconds: f64) -> impl Iterator<Item = f64> {
    (0..=seconds as u64)
        .step_by(SCRAPE as usize)
        .map(|t| t as f64)
}

fn covers(span: &Expected, t: f64, end: f64) -> bool {
    let until = span.until.map_or(end, |until| until.0 + span.slack.0);
    span.from.0 <= t && t <= until
}

/// The first time at which the recording rule and the nodes say different things of a run. What several nodes know is
/// folded as the rules do it, and of each node the newest page counts that Prometheus got.
pub(super) fn disagreement(scrapes: &[Scrape], evaluated: &Evaluated) -> Option<String> {
    let mut times: Vec<f64> = scrapes.iter().map(|scrape| scrape.at).collect();
    times.dedup();
    for at in times {
        let from = scrapes.partition_point(|scrape| scrape.at < at - BRIDGED);
        let until = scrapes.partition_point(|scrape| scrape.at <= at);
        let mut newest = BTreeMap::new();
        let answered = scrapes[from..until]
            .iter()
            .filter(|scrape| scrape.page.is_some());
        for scrape in answered {
            for (run, thought) in &scrape.runs {
                newest.insert((run.as_str(), scrape.node.as_str()), thought);
            }
        }
        let runs: BTreeSet<&str> = newest.keys().map(|(run, _)| *run).collect();
        for run in runs {
            let nodes = newest
                .range((run, "")..)
                .take_while(|((of, _), _)| *of == run);
            let nodes: Vec<&Thought> = nodes.map(|(_, thought)| *thought).collect();
            let Some(ours) = word(&nodes) else { continue };
            let fleet = evaluated
                .verdicts
                .get(run)
                .and_then(|verdicts| verdicts.get(&(at as u64)));
            let fleet = fleet.map_or("nothing", String::as_str);
            if fleet != ours {
                return Some(format!(
                    "{}: run {run}: by what its nodes know it is {ours}, the rules say {fleet}",
                    clock(at)
                ));
            }
        }
    }
    None
}

/// The verdict on what these nodes know of a run: the first row of the table, which only a fleet can tell, or the node's.
fn word(nodes: &[&Thought]) -> Option<&'static str> {
    let planned = nodes.iter().filter_map(|thought| thought.nodes).max();
    let live = nodes.iter().any(|thought| thought.facts.ended.is_none());
    if live && planned.is_some_and(|planned| (nodes.len() as u64) < planned) {
        return Some("node_missing");
    }
    let facts: Vec<Facts> = nodes.iter().map(|thought| thought.facts.clone()).collect();
    Some(judge(&Facts::merged(&facts)?).name())
}
