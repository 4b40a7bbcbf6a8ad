//! Every file in `tests/scenarios/` is a test: it is played in virtual time through the product's own code and the real
//! rules, its alerts must fire when it says and be silent else, and node and rules must agree at each scrape.
//! `SCENARIO_DIR` adds more.

use std::path::{Path, PathBuf};

use training_exporter::cli::simulate::files;
use training_exporter::cli::simulate::play::play;
use training_exporter::cli::simulate::promtool::Rules;

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
