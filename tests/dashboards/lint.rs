//! The rules of Grafana's dashboard-linter that can be told from the JSON, and those of our own.
//!
//! Kept, by their names there: template-datasource, template-job, template-instance, template-label-promql,
//! template-on-time-change-reload, template-uneditable, panel-datasource, panel-title-description, panel-units,
//! panel-no-targets, target-rate-interval, target-counter-agg, target-job and target-instance. The last two for every
//! series of an exporter; what the rules record for a run over all its nodes has neither label, which
//! `grafana/dashboards/.lint` says to the linter itself. target-promql is in `values.rs`: a Prometheus answers each query.
//! target-logql rules concern no dashboard of ours.

use std::collections::BTreeSet;
use std::fs;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::source::NAMES;
use super::support::known_series;
use super::words::verdicts;
use super::{panels, shipped, text};

/// Of Grafana's units, those in use.
const UNITS: [&str; 14] = [
    "none",
    "short",
    "percentunit",
    "bytes",
    "Bps",
    "ops",
    "cps",
    "s",
    "h",
    "dtdurations",
    "watt",
    "celsius",
    "hertz",
    "dateTimeFromNow",
];

/// A selector of an expression: its name, and its matchers if it has some.
static SELECTOR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b((?:\w+:)?training_\w+(?::\w+)?|up|ALERTS)\b(?:\{([^{}]*)\})?")
        .expect("a pattern")
});
static QUOTED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""[^"]*""#).expect("a pattern"));

/// The selectors of an expression; the braces of a matcher are in no quotes of ours.
pub(crate) fn selectors(expr: &str) -> Vec<(String, Option<String>)> {
    let found = SELECTOR.captures_iter(expr);
    let inside = |at: usize| {
        QUOTED
            .find_iter(expr)
            .any(|quoted| quoted.range().contains(&at))
    };
    found
        .filter(|found| !inside(found.get(0).map_or(0, |all| all.start())))
        .map(|found| {
            (
                found[1].to_owned(),
                found.get(2).map(|matchers| matchers.as_str().to_owned()),
            )
        })
        .collect()
}

/// All expressions of a dashboard, each with where it stands.
pub(crate) fn expressions(dashboard: &Value) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for panel in panels(dashboard) {
        for target in panel["targets"].as_array().into_iter().flatten() {
            all.push((
                format!("{}, {}", text(&panel["title"]), text(&target["refId"])),
                text(&target["expr"]).to_owned(),
            ));
        }
    }
    for annotation in dashboard["annotations"]["list"]
        .as_array()
        .into_iter()
        .flatten()
    {
        all.push((
            "annotation".to_owned(),
            text(&annotation["expr"]).to_owned(),
        ));
    }
    for variable in dashboard["templating"]["list"]
        .as_array()
        .into_iter()
        .flatten()
    {
        if let Some(inner) = text(&variable["query"]).strip_prefix("label_values(") {
            let (selector, _) = inner
                .rsplit_once(", ")
                .expect("label_values(SELECTOR, LABEL)");
            all.push((
                format!("variable {}", text(&variable["name"])),
                selector.to_owned(),
            ));
        }
    }
    all
}

/// Series that are of one exporter, so have `job` and `instance`.
fn of_an_exporter(name: &str) -> bool {
    name == "up" || name.starts_with("training_")
}

#[test]
fn each_dashboard_stands_alone_and_is_laid_out_well() {
    let mut uids = BTreeSet::new();
    for name in NAMES {
        let dashboard = shipped(name);
        let uid = format!("training-{name}");
        assert_eq!(dashboard["uid"], *uid);
        assert!(uids.insert(uid));
        assert_eq!(
            (&dashboard["schemaVersion"], &dashboard["editable"]),
            (&39.into(), &false.into())
        );
        let mut ids = BTreeSet::new();
        let mut taken = BTreeSet::new();
        for panel in dashboard["panels"].as_array().expect("panels") {
            let place = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
            let title = text(&panel["title"]);
            assert!(
                ids.insert(panel["id"].as_u64().expect("an id")),
                "{name}: {title}: its id stands twice"
            );
            assert!(
                place("x") + place("w") <= 24,
                "{name}: {title} is beyond the right edge"
            );
            for x in place("x")..place("x") + place("w") {
                for y in place("y")..place("y") + place("h") {
                    assert!(taken.insert((x, y)), "{name}: {title} covers another panel");
                }
            }
        }
    }
    let to = Regex::new(r"/d/([\w-]+)/").expect("a pattern");
    for name in NAMES {
        let json = shipped(name).to_string();
        for link in to.captures_iter(&json) {
            assert!(uids.contains(&link[1]), "{name} leads to {}", &link[1]);
        }
    }
}

#[test]
fn variables_are_as_the_linter_wants_them() {
    for name in NAMES {
        let dashboard = shipped(name);
        let variable = |wanted: &str| {
            let list = dashboard["templating"]["list"]
                .as_array()
                .expect("variables");
            let found = list.iter().find(|variable| variable["name"] == wanted);
            found
                .unwrap_or_else(|| panic!("{name}: no variable {wanted}"))
                .clone()
        };
        let source = variable("datasource");
        assert_eq!(
            (
                text(&source["type"]),
                text(&source["query"]),
                text(&source["label"])
            ),
            ("datasource", "prometheus", "Data source")
        );
        for (wanted, label) in [("job", "Job"), ("instance", "Instance")] {
            let it = variable(wanted);
            assert_eq!(
                (text(&it["type"]), text(&it["label"]), text(&it["allValue"])),
                ("query", label, ".+"),
                "{name}"
            );
            assert_eq!(
                (&it["multi"], &it["includeAll"]),
                (&true.into(), &true.into()),
                "{name}: {wanted}"
            );
        }
        for it in dashboard["templating"]["list"]
            .as_array()
            .into_iter()
            .flatten()
            .skip(1)
        {
            assert_eq!(
                text(&it["datasource"]["uid"]),
                "${datasource}",
                "{name}: {}",
                it["name"]
            );
            assert_eq!(
                it["refresh"], 2,
                "{name}: {} is read anew with the time",
                it["name"]
            );
        }
    }
}

#[test]
fn panels_are_as_the_linter_wants_them() {
    for name in NAMES {
        for panel in panels(&shipped(name)) {
            let place = format!("{name}: {}", panel["title"]);
            assert!(
                !text(&panel["title"]).is_empty() && text(&panel["description"]).ends_with('.'),
                "{place}"
            );
            if panel["type"] == "text" {
                continue;
            }
            assert_eq!(
                text(&panel["datasource"]["uid"]),
                "${datasource}",
                "{place}"
            );
            let mut units = vec![&panel["fieldConfig"]["defaults"]["unit"]];
            for over in panel["fieldConfig"]["overrides"]
                .as_array()
                .into_iter()
                .flatten()
            {
                let properties = over["properties"].as_array().into_iter().flatten();
                units.extend(
                    properties
                        .filter(|p| p["id"] == "unit")
                        .map(|p| &p["value"]),
                );
            }
            assert!(
                units.iter().all(|unit| UNITS.contains(&text(unit))),
                "{place}: {units:?}"
            );
            let targets = panel["targets"].as_array().expect("targets");
            assert!(!targets.is_empty(), "{place} asks nothing");
            let mut ids = BTreeSet::new();
            for target in targets {
                assert_eq!(
                    text(&target["datasource"]["uid"]),
                    "${datasource}",
                    "{place}"
                );
                assert!(ids.insert(text(&target["refId"])), "{place}: {target}");
            }
        }
    }
}

#[test]
fn expressions_are_as_the_linter_wants_them() {
    let rate = Regex::new(r"\bi?rate\([^()]*\[(.*?)\]").expect("a pattern");
    let counter =
        Regex::new(r"(.{0,10})\btraining_\w+_total\b(?:\{[^{}]*\})?(.?)").expect("a pattern");
    for name in NAMES {
        for (place, expr) in expressions(&shipped(name)) {
            for found in rate.captures_iter(&expr) {
                assert_eq!(&found[1], "$__rate_interval", "{name}: {place}");
            }
            for found in counter.captures_iter(&expr) {
                let rated = found[1].ends_with("rate(") || found[1].ends_with("increase(");
                assert!(
                    rated && &found[2] == "[",
                    "{name}: {place}: a counter is only read as a rate: {}",
                    &found[0]
                );
            }
            if place.starts_with("variable") {
                continue;
            }
            for (series, matchers) in selectors(&expr)
                .into_iter()
                .filter(|(series, _)| of_an_exporter(series))
            {
                let matchers = matchers.unwrap_or_default();
                for wanted in [r#"job=~"$job""#, r#"instance=~"$instance""#] {
                    assert!(
                        matchers.contains(wanted),
                        "{name}: {place}: {series} without {wanted}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_the_linter_is_told_to_bear_has_a_reason() {
    let text = fs::read_to_string("grafana/dashboards/.lint").expect("the exclusions");
    let file: serde_yaml::Value = serde_yaml::from_str(&text).expect("YAML");
    let rules = file["exclusions"].as_mapping().expect("exclusions");
    let names: Vec<_> = rules.keys().filter_map(|name| name.as_str()).collect();
    assert_eq!(names, ["target-job-rule", "target-instance-rule"]);
    assert!(rules.values().all(|rule| {
        rule["reason"]
            .as_str()
            .is_some_and(|reason| reason.len() > 20)
    }));
}

#[test]
fn only_series_that_exist_are_asked_for() {
    let known = known_series();
    for name in NAMES {
        for (place, expr) in expressions(&shipped(name)) {
            let series = selectors(&expr);
            assert!(!series.is_empty(), "{name}: {place}: {expr}");
            for (series, _) in series {
                assert!(
                    known.contains(&series),
                    "{name}: {place}: {series} does not exist"
                );
            }
        }
    }
}

#[test]
fn every_verdict_of_the_rules_has_its_word() {
    let rules = fs::read_to_string("alerts/recording.rules.yml").expect("the rules");
    let label = Regex::new(r#""verdict", "(\w+)""#).expect("a pattern");
    let told: BTreeSet<&str> = label
        .captures_iter(&rules)
        .map(|found| found.extract::<1>().1[0])
        .collect();
    let words: BTreeSet<&str> = verdicts()
        .iter()
        .map(|word| word.1)
        .filter(|name| !name.is_empty())
        .collect();
    assert_eq!(told, words);
}

#[test]
fn what_is_provisioned_is_what_is_there() {
    let read = |path: &str| -> serde_yaml::Value {
        serde_yaml::from_str(&fs::read_to_string(path).expect(path)).expect(path)
    };
    let source = &read("grafana/provisioning/datasources/prometheus.yml")["datasources"][0];
    let example = read("deploy/prometheus/prometheus.example.yml");
    assert_eq!(source["type"].as_str(), Some("prometheus"));
    assert_eq!(
        source["jsonData"]["timeInterval"],
        example["global"]["scrape_interval"]
    );
    let provider = &read("grafana/provisioning/dashboards/training.yml")["providers"][0];
    assert_eq!(
        (
            provider["type"].as_str(),
            provider["allowUiUpdates"].as_bool()
        ),
        (Some("file"), Some(false))
    );
    let there = glob::glob("grafana/dashboards/*")
        .expect("a pattern")
        .flatten();
    let there: BTreeSet<String> = there
        .map(|path| path.display().to_string())
        .filter(|path| !path.ends_with(".lint"))
        .collect();
    assert_eq!(
        there,
        NAMES
            .iter()
            .map(|name| super::path(name).display().to_string())
            .collect()
    );
}
