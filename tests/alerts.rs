//! The alert rules beside the product: what they and their runbooks name must exist, and each alert has a runbook.

#![expect(clippy::disallowed_methods, reason = "it starts the program")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use regex::Regex;
use support::EXPORTER;
use training_exporter::state::metrics::all_metrics;

fn files(pattern: &str) -> Vec<(PathBuf, String)> {
    let found: Vec<PathBuf> = glob::glob(pattern).expect("a pattern").flatten().collect();
    assert!(!found.is_empty(), "{pattern}");
    found
        .into_iter()
        .map(|file| (file.clone(), fs::read_to_string(&file).expect("text")))
        .collect()
}

fn all(pattern: &str, text: &str) -> BTreeSet<String> {
    let pattern = Regex::new(pattern).expect("a pattern");
    pattern
        .captures_iter(text)
        .map(|found| found[1].to_owned())
        .collect()
}

fn alerts() -> BTreeSet<String> {
    files("alerts/*.yml")
        .iter()
        .flat_map(|(_, text)| all(r"(?m)^ *- alert: *(\S+)", text))
        .collect()
}

/// What may be named: the exporter's metrics, what the recording rules make of them, and what Prometheus adds.
fn known() -> BTreeSet<String> {
    let mut known: BTreeSet<String> = ["up", "ALERTS"].map(str::to_owned).into();
    for entry in all_metrics() {
        if entry.kind == "summary" {
            known.extend([
                format!("{}_sum", entry.name),
                format!("{}_count", entry.name),
            ]);
        }
        known.insert(entry.name.to_owned());
    }
    for (_, text) in files("alerts/*.rules.yml") {
        known.extend(all(r"(?m)^ *- record: *(\S+)", &text));
    }
    known
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let runbooks: BTreeSet<String> = files("alerts/runbooks/*.md")
        .iter()
        .map(|(file, _)| {
            file.file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let rules = alerts();
    let without: Vec<_> = rules.difference(&runbooks).collect();
    assert!(without.is_empty(), "alerts without a runbook: {without:?}");
    let unknown: Vec<_> = runbooks.difference(&rules).collect();
    assert!(unknown.is_empty(), "runbooks of no alert: {unknown:?}");
}

#[test]
fn each_alert_names_its_own_runbook_and_has_one_severity() {
    let mut severities = BTreeSet::new();
    for (file, text) in files("alerts/*.rules.yml") {
        for rule in text.split("- alert: ").skip(1) {
            let name = rule.lines().next().expect("a name").trim();
            let place = format!("{}: {name}", file.display());
            let severity = all(r"severity: *(\w+)", rule);
            assert_eq!(severity.len(), 1, "{place}: {severity:?}");
            assert!(severities.insert(name.to_owned()), "{place} stands twice");
            assert!(
                rule.contains(&format!("alerts/runbooks/{name}.md")),
                "{place}: runbook_url"
            );
            assert!(
                rule.contains("summary:") && rule.contains("description:"),
                "{place}"
            );
        }
    }
}

#[test]
fn rules_and_runbooks_name_only_what_exists() {
    let known = known();
    let mut places = files("alerts/*.yml");
    places.extend(files("alerts/runbooks/*.md"));
    places.extend(files("alerts/alertmanager/*.yml"));
    places.extend(files("README.md"));
    for (file, text) in places {
        for name in all(r"\b((?:\w+:)?training_[a-z_]*[a-z](?::\w+)?)\b", &text) {
            // A group of names, written as their common beginning.
            let group = name.ends_with('_')
                || known
                    .iter()
                    .any(|known| known.starts_with(&format!("{name}_")));
            assert!(
                known.contains(&name) || group,
                "{}: {name} does not exist",
                file.display()
            );
        }
    }
}

#[test]
fn what_a_page_tells_to_run_can_be_run() {
    let help = Command::new(EXPORTER)
        .arg("--help")
        .output()
        .expect("it ends");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let commands = all(r"(?m)^  ([a-z]+)  ", &help);
    let mut places = files("alerts/*.yml");
    places.extend(files("alerts/runbooks/*.md"));
    places.extend(files("README.md"));
    for (file, text) in places {
        // As code: after a backtick, or after the folder it was built in.
        for command in all(r"(?:`|release/)training-exporter ([a-z]+)\b", &text) {
            assert!(
                commands.contains(&command),
                "{}: training-exporter {command}",
                file.display()
            );
        }
        for flag in all(r"(--(?:log|val|web|nvml|path|config)\.[a-z-]+)", &text) {
            assert!(help.contains(&flag), "{}: {flag}", file.display());
        }
    }
}
