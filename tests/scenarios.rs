//! Every file in `tests/scenarios/` is a test: it is played in virtual time through the product's own code and the real
//! rules, its alerts must fire when it says and be silent else, and node and rules must agree at each scrape.
//! `SCENARIO_DIR` adds more.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use training_exporter::cli::simulate::{files, play};

#[test]
fn every_scenario_is_as_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("tests/scenarios")];
    folders.extend(std::env::var_os("SCENARIO_DIR").map(PathBuf::from));
    let todo = files(&folders).expect("folders of scenarios");
    assert!(!todo.is_empty(), "no scenarios in {folders:?}");
    let count = todo.len();
    let todo = Mutex::new(todo);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(file) = todo.lock().expect("unpoisoned").pop() else {
                        return;
                    };
                    let failure = match play(&file, &root.join("alerts"), Some(&root.join("tests")))
                    {
                        Ok(outcome) if outcome.differences.is_empty() => continue,
                        Ok(outcome) => outcome.differences.join("\n    "),
                        Err(e) => format!("{e:#}"),
                    };
                    let name = file
                        .strip_prefix(root)
                        .unwrap_or(&file)
                        .display()
                        .to_string();
                    failures
                        .lock()
                        .expect("unpoisoned")
                        .push(format!("{name}:\n    {failure}"));
                }
            });
        }
    });
    let failures = failures.into_inner().expect("unpoisoned");
    assert!(
        failures.is_empty(),
        "{} of {count} scenarios:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
