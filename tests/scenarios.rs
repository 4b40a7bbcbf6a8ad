//! Every file in `tests/scenarios/` is a test: it is played in virtual time through the product's own code and the real
//! rules, its alerts must fire when it says and be silent else, and node and rules must agree at each scrape.
//! `SCENARIO_DIR` adds more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use regex::Regex;
use training_exporter::cli::simulate::files;
use training_exporter::cli::simulate::play::play;
use training_exporter::cli::simulate::promtool::{Evaluated, Rules};

#[test]
fn every_scenario_is_as_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("tests/scenarios")];
    folders.extend(std::env::var_os("SCENARIO_DIR").map(PathBuf::from));
    let todo = files(&folders).expect("folders of scenarios");
    assert!(!todo.is_empty(), "no scenarios in {folders:?}");
    let rules = Rules::folder(&root.join("alerts")).expect("the shipped rules");
    let mut failures = Vec::new();
    play(
        &todo,
        &rules,
        &[],
        Some(&root.join("tests")),
        |file, outcome| {
            let failure = match outcome {
                Ok(outcome) if outcome.differences.is_empty() => return Ok(()),
                Ok(outcome) => outcome.differences.join("\n    "),
                Err(e) => format!("{e:#}"),
            };
            let name = file.strip_prefix(root).unwrap_or(file).display();
            failures.push(format!("{name}:\n    {failure}"));
            Ok(())
        },
    )
    .expect("all are played");
    assert!(
        failures.is_empty(),
        "{} of {} scenarios:\n{}",
        failures.len(),
        todo.len(),
        failures.join("\n")
    );
}

fn evaluated(files: &[PathBuf]) -> Vec<Evaluated> {
    let rules = Rules::folder(Path::new("alerts")).expect("the shipped rules");
    let mut all = Vec::new();
    play(files, &rules, &[], None, |_, outcome| {
        all.push(outcome?.evaluated);
        Ok(())
    })
    .expect("all are played");
    all
}

#[test]
fn scenarios_in_one_world_do_not_meet() {
    let names = [
        "recorded/eagle3_healthy_as_it_is",
        "recorded/eagle3_read_hangs_as_it_is",
        "situations/exporter_begins_beside_an_old_hang",
        "situations/exporter_that_never_answered",
    ];
    let files = names.map(|name| PathBuf::from(format!("tests/scenarios/{name}.yaml")));
    let alone: Vec<Evaluated> = files
        .iter()
        .flat_map(|file| evaluated(std::slice::from_ref(file)))
        .collect();
    assert_eq!(evaluated(&files), alone);
}

/// These are what keeps a scenario out of a shared world (`cli::simulate::series::concerns_the_fleet`).
#[test]
fn rules_look_at_the_whole_fleet_only_where_that_is_known() {
    let joins =
        Regex::new(r"on \(\)\s*(?:\(|count\(|absent_over_time\()*\s*([a-z_:]+)").expect("constant");
    let whole =
        Regex::new(r"\b(?:sum|max|min|avg|count|group|topk) *\(\s*([a-z_:]+)").expect("constant");
    let mut seen = BTreeSet::new();
    for file in glob::glob("alerts/*.rules.yml")
        .expect("a pattern")
        .flatten()
    {
        let text = std::fs::read_to_string(file).expect("rules");
        let rules: serde_yaml::Value = serde_yaml::from_str(&text).expect("YAML");
        for group in rules["groups"].as_sequence().expect("groups") {
            for rule in group["rules"].as_sequence().expect("rules") {
                let expr = rule["expr"].as_str().expect("an expression");
                seen.extend(joins.captures_iter(expr).map(|found| found[1].to_owned()));
                seen.extend(whole.captures_iter(expr).map(|found| found[1].to_owned()));
            }
        }
    }
    let known = [
        "run:training_storage_wait:info",
        "training_exporter_build_info",
        "training_exporter_clock_timestamp_seconds",
    ];
    assert_eq!(seen, BTreeSet::from(known.map(str::to_owned)));
}
