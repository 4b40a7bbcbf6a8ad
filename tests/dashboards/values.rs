//! What each panel shows after a night, against what the night was: `expected.yaml` is the data.
//!
//! At the last moment nobody answers any more. There every query that is not in the data must give nothing: what stays on
//! the screen after the end of all collection is told here, number by number.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde::Deserialize;
use serde_json::Value;

use super::lint::{expressions, selectors};
use super::prometheus::{Labels, Prometheus};
use super::source::NAMES;
use super::world::night;
use super::{panels, shipped, text};

/// Values, by what the panel calls them.
type Shown = BTreeMap<String, f64>;

/// What a panel shows at a minute of the night.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Moment {
    at: u64,
    #[serde(default)]
    run: String,
    shows: BTreeMap<String, Shown>,
}

/// Dashboard, panel, moments.
type Expected = BTreeMap<String, BTreeMap<String, Vec<Moment>>>;

/// Minutes after which nobody answers any more, and the runs that are looked at then.
const DEAD: u64 = 85;
const RUNS: [&str; 4] = ["eagle", "heron", "kite", "whale"];

/// As Grafana puts in its variables: everything chosen, an hour on the screen, a scrape each 15 s.
fn put_in(expr: &str, run: &str) -> String {
    let all = [
        ("$job", ".+"),
        ("$instance", ".+"),
        ("$gpu", ".+"),
        ("$run", run),
        ("$__rate_interval", "1m"),
        ("$__range", "1h"),
    ];
    let expr = all.iter().fold(expr.to_owned(), |expr, (name, value)| {
        expr.replace(name, value)
    });
    assert!(!expr.contains('$'), "{expr}");
    expr
}

/// What a target shows: under its legend, or, in a table, under the values of its labels.
fn shown(prometheus: &Prometheus, target: &Value, run: &str, minute: u64) -> Shown {
    static LABEL: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\{\{(\w+)\}\}").expect("a pattern"));
    let legend = text(&target["legendFormat"]);
    let mut all = Shown::new();
    for (labels, value) in prometheus.ask(&put_in(text(&target["expr"]), run), minute as f64 * 60.0)
    {
        let name = if legend == "__auto" {
            in_order(&labels)
        } else {
            LABEL
                .replace_all(legend, |found: &Captures<'_>| {
                    labels.get(&found[1]).cloned().unwrap_or_default()
                })
                .into_owned()
        };
        assert!(
            all.insert(name.clone(), value).is_none(),
            "{legend}: two are called {name}"
        );
    }
    all
}

fn in_order(labels: &Labels) -> String {
    let values = labels
        .iter()
        .filter(|(name, _)| *name != "__name__" && *name != "job")
        .map(|(_, value)| &**value);
    values.collect::<Vec<_>>().join(" ")
}

fn alike(one: &Shown, other: &Shown) -> bool {
    let close = |a: f64, b: f64| (a - b).abs() <= 0.005 * a.abs().max(b.abs()) + 1e-9;
    one.len() == other.len()
        && one
            .iter()
            .all(|(name, a)| other.get(name).is_some_and(|b| close(*a, *b)))
}

#[test]
fn every_panel_shows_what_the_night_was() {
    let data = fs::read_to_string("tests/dashboards/expected.yaml").expect("the data");
    let expected: Expected =
        serde_yaml::from_str(&data).unwrap_or_else(|e| panic!("expected.yaml: {e}"));
    let prometheus = night();
    let mut wrong = Vec::new();
    let none = Vec::new();
    for name in NAMES {
        let dashboard = shipped(name);
        let mut known: BTreeSet<&String> = expected[name].keys().collect();
        for panel in panels(&dashboard).filter(|panel| panel["type"] != "text") {
            let title = text(&panel["title"]).to_owned();
            known.remove(&title);
            let moments = expected[name].get(&title).unwrap_or(&none);
            let runs = if name == "run" { &RUNS[..] } else { &[""] };
            for target in panel["targets"].as_array().expect("targets") {
                let id = text(&target["refId"]);
                let mut tell = |at: u64, run: &str, of: &Shown| {
                    let is = shown(&prometheus, target, run, at);
                    if !alike(&is, of) {
                        wrong.push(format!(
                            "{name}, {title}, {id}, {at} min {run}: {is:?}, not {of:?}"
                        ));
                    }
                };
                let mut seen = false;
                for moment in moments {
                    if let Some(of) = moment.shows.get(id) {
                        seen |= !of.is_empty() && moment.at != DEAD;
                        tell(moment.at, &moment.run, of);
                    }
                }
                for run in runs {
                    let told = moments.iter().any(|moment| {
                        moment.at == DEAD && moment.run == *run && moment.shows.contains_key(id)
                    });
                    if !told {
                        tell(DEAD, run, &Shown::new());
                    }
                }
                if !seen {
                    wrong.push(format!(
                        "{name}, {title}, {id}: no moment of the night says what it shows"
                    ));
                }
            }
            if panel["type"] == "table" {
                wrong.extend(
                    lines_without_a_first_cell(&prometheus, panel, runs)
                        .map(|it| format!("{name}, {title}: {it}")),
                );
            }
        }
        wrong.extend(
            known
                .iter()
                .map(|title| format!("{name}: no panel is called {title}")),
        );
        wrong.extend(unknown_labels(&prometheus, &dashboard).map(|it| format!("{name}, {it}")));
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Queries of a table that would give a line in which its first query says nothing: half a line, without a verdict.
fn lines_without_a_first_cell(
    prometheus: &Prometheus,
    panel: &Value,
    runs: &[&str],
) -> impl Iterator<Item = String> {
    let targets = panel["targets"].as_array().expect("targets");
    let ask = |target: &Value, run: &str, minute: f64| {
        prometheus.ask(&put_in(text(&target["expr"]), run), minute * 60.0)
    };
    let mut wrong = Vec::new();
    for minute in [30.0, 55.0, 61.0, 67.0, 85.0] {
        for run in runs {
            let first = ask(&targets[0], run, minute);
            for target in &targets[1..] {
                for (labels, _) in ask(target, run, minute) {
                    let fits = |(first, _): &(Labels, f64)| {
                        first
                            .iter()
                            .all(|(name, value)| labels.get(name) == Some(value))
                    };
                    if !first.iter().any(fits) {
                        wrong.push(format!(
                            "{}, {minute} min {run}: a line of its own: {labels:?}",
                            text(&target["refId"])
                        ));
                    }
                }
            }
        }
    }
    wrong.into_iter()
}

/// Labels that an expression matches or groups by, and that no series of it has.
fn unknown_labels(prometheus: &Prometheus, dashboard: &Value) -> impl Iterator<Item = String> {
    let matcher = Regex::new(r#"(\w+) *(?:=~|!~|!=|=) *""#).expect("a pattern");
    let group =
        Regex::new(r"\b(?:by|on|ignoring|group_left|group_right) \(([^()]*)\)").expect("a pattern");
    let mut wrong = Vec::new();
    for (place, expr) in expressions(dashboard) {
        let mut all = BTreeSet::new();
        for (series, matchers) in selectors(&expr) {
            let labels = prometheus.labels_of(&series);
            for found in matcher.captures_iter(&matchers.unwrap_or_default()) {
                if !labels.iter().any(|label| *label == found[1]) {
                    wrong.push(format!("{place}: {series} has no label {}", &found[1]));
                }
            }
            all.extend(labels);
        }
        for label in group
            .captures_iter(&expr)
            .flat_map(|found| found[1].split(", ").map(str::to_owned).collect::<Vec<_>>())
        {
            if !label.is_empty() && !all.contains(&label) {
                wrong.push(format!("{place}: nothing has a label {label}"));
            }
        }
    }
    wrong.into_iter()
}
