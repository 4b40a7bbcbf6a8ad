//! The alert rules beside the product: what they and their runbooks name must exist, and each alert has a runbook, a test
//! and a place among the incidents.

#![expect(clippy::disallowed_methods, reason = "it starts the program")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use regex::{Captures, Regex};
use support::{EXPORTER, known_series, pipe};

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

/// The runbooks, by their alerts' names.
fn runbooks() -> Vec<(String, String)> {
    let named = |(file, text): (PathBuf, String)| {
        let name = file.file_stem().expect("a name").to_string_lossy();
        (name != "README").then(|| (name.into_owned(), text))
    };
    files("alerts/runbooks/*.md")
        .into_iter()
        .filter_map(named)
        .collect()
}

/// The text between backticks, each on one line.
fn code(text: &str) -> Vec<String> {
    let spans = Regex::new(r"`([^`]+)`").expect("a pattern");
    let line = |span: &str| span.split_whitespace().collect::<Vec<_>>().join(" ");
    spans
        .captures_iter(text)
        .map(|span| line(&span[1]))
        .collect()
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let runbooks: BTreeSet<String> = runbooks().into_iter().map(|(name, _)| name).collect();
    let rules = alerts();
    let without: Vec<_> = rules.difference(&runbooks).collect();
    assert!(without.is_empty(), "alerts without a runbook: {without:?}");
    let unknown: Vec<_> = runbooks.difference(&rules).collect();
    assert!(unknown.is_empty(), "runbooks of no alert: {unknown:?}");
}

#[test]
fn every_runbook_is_of_one_form() {
    let form = [
        "Meaning",
        "Impact",
        "Diagnosis",
        "Mitigation",
        "How to tune or silence",
    ];
    let heading = Regex::new(r"(?m)^## (.*)$").expect("a pattern");
    for (name, text) in runbooks() {
        assert_eq!(text.lines().next(), Some(&*format!("# {name}")));
        let sections: Vec<&str> = heading
            .captures_iter(&text)
            .map(|section| section.get(1).map_or("", |title| title.as_str()))
            .collect();
        assert_eq!(sections, form, "{name}");
    }
}

#[test]
fn each_alert_names_its_own_runbook_and_has_one_severity_a_test_and_an_incident() {
    let tested: String = files("alerts/tests/*.test.yml")
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    let incidents = fs::read_to_string("alerts/tests/incidents.txt").expect("incidents");
    let placed = all(r"(?m)^ +[a-z>]+ +(Training\w+ +\w+)", &incidents);
    let mut severities = BTreeSet::new();
    for (file, text) in files("alerts/*.yml") {
        for rule in text.split("- alert: ").skip(1) {
            let name = rule.lines().next().expect("a name").trim();
            let place = format!("{}: {name}", file.display());
            let severity = all(r"severity: *(\w+)", rule);
            assert_eq!(severity.len(), 1, "{place}: {severity:?}");
            let severity = severity.first().expect("one");
            assert!(severities.insert(name.to_owned()), "{place} stands twice");
            assert!(
                rule.contains(&format!("alerts/runbooks/{name}.md")),
                "{place}: runbook_url"
            );
            assert!(
                rule.contains("summary:") && rule.contains("description:"),
                "{place}"
            );
            assert!(
                severity == "none" || tested.contains(&format!("alertname: {name}\n")),
                "{place}: no *.test.yml tests it"
            );
            let words = |line: &String| line.split_whitespace().eq([name, severity]);
            assert!(
                placed.iter().any(words),
                "{place}: incidents.txt has it not, or not as {severity}"
            );
        }
    }
    for line in placed {
        let name = line.split_whitespace().next().expect("a name");
        assert!(
            severities.contains(name),
            "incidents.txt: {name} is no alert"
        );
    }
}

#[test]
fn prometheus_takes_what_a_runbook_asks_it() {
    let known = known_series();
    let word = Regex::new(r"[A-Za-z_:]+").expect("a pattern");
    let mut rules = "groups:\n  - name: runbooks\n    rules:\n".to_owned();
    let mut count = 0;
    for (name, text) in runbooks() {
        for span in code(&text) {
            let asks = word
                .find_iter(&span)
                .any(|word| known.contains(word.as_str()));
            if asks && !span.contains(" | ") {
                rules += &format!(
                    "      - record: runbook:{name}:expr{count}\n        expr: '{}'\n",
                    span.replace('\'', "''")
                );
                count += 1;
            }
        }
    }
    assert!(count > 15, "{rules}");
    let (taken, said) = pipe("promtool", &["check", "rules", "/dev/stdin"], &rules);
    assert!(taken, "{said}\n{rules}");
}

#[test]
fn what_a_runbook_tells_to_run_is_said_where_to_get() {
    let readme = fs::read_to_string("alerts/runbooks/README.md").expect("a page");
    let table: String = readme
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let tools: BTreeSet<String> = code(&table).into_iter().collect();
    // A command has a flag, a place to fill in, or a pipe.
    let command = Regex::new(r"^[a-z][\w-]* (.* )?(-{1,2}\w|[A-Z]{2,}(?: |$)|/)|^[a-z-]+ .* \| ")
        .expect("a pattern");
    let first = Regex::new(
        r#"(?:^|[|;&] +|^ssh NODE "?)(?:sudo (?:-u \w+ )?)?(?:timeout \d+ )?([a-z][\w-]*)"#,
    )
    .expect("a pattern");
    let mut used = BTreeSet::new();
    for (name, text) in runbooks() {
        for span in code(&text).iter().filter(|span| command.is_match(span)) {
            for found in first.captures_iter(span) {
                assert!(
                    tools.contains(&found[1]),
                    "{name}: `{}` of `{span}` is not in runbooks/README.md",
                    &found[1]
                );
                used.insert(found[1].to_owned());
            }
        }
    }
    assert!(used.len() > 25, "{used:?}");
}

#[test]
fn rules_and_runbooks_name_only_what_exists() {
    let known = known_series();
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

/// On Prometheus 3 a range excludes its beginning: so does here one that is a millisecond shorter, since that is how fine
/// its clock is. What the tests of the rules say holds for either.
#[test]
fn rules_mean_the_same_where_ranges_are_left_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let range = Regex::new(r"\[(\d+)([smhd])\]").expect("a pattern");
    let shorter = |found: &Captures<'_>| {
        let unit = match &found[2] {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            _ => 86_400,
        };
        let seconds = unit * found[1].parse::<u64>().expect("a number");
        format!("[{}ms]", seconds * 1_000 - 1)
    };
    let mut ranges = 0;
    for (file, text) in files("alerts/*.rules.yml") {
        ranges += range.find_iter(&text).count();
        let copy = folder.path().join(file.file_name().expect("a name"));
        fs::write(copy, range.replace_all(&text, shorter).as_ref()).expect("written");
    }
    assert!(ranges > 100, "{ranges} ranges");
    let place = folder.path().join("tests");
    fs::create_dir(&place).expect("a folder");
    let mut test = Command::new("promtool");
    test.args(["test", "rules"]);
    for (file, text) in files("alerts/tests/*.test.yml") {
        let copy = place.join(file.file_name().expect("a name"));
        fs::write(&copy, text).expect("written");
        test.arg(copy);
    }
    let output = test.output().expect("promtool; tests/run.sh installs it");
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&said)
    );
}
