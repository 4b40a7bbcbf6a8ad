//! Scrapes -> what promtool says of them -> which alert fired when, and each verdict.
//!
//! The test asks at every evaluation for all firing alerts and all verdicts, and claims that there are none: promtool
//! then prints what there was. So the rules are evaluated by Prometheus' own code, with no copy of their meaning here.
//! Only annotations are left out: nobody reads them here, and their templates would ask again at every evaluation.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, anyhow, bail};
use regex::Regex;
use serde_yaml::Value;
use tempfile::TempDir;

use super::series::{input, step, unmarked};
use crate::scenario::simulate::{SCRAPE, Scrape};

/// What the rules made of a scenario. Times are the evaluations', in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluated {
    /// When each alert fired, for each of its sets of labels.
    pub alerts: BTreeMap<Alert, Vec<f64>>,
    /// The fleet's verdict on each run.
    pub verdicts: BTreeMap<String, BTreeMap<u64, String>>,
}

/// One alert of the rules.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alert {
    /// Its name.
    pub name: String,
    /// How severe it is.
    pub severity: String,
    /// Whose it is; empty for the exporter's own.
    pub run: String,
}

/// Rule files, ready to be evaluated.
#[derive(Debug)]
pub struct Rules {
    /// Copies without annotations.
    folder: TempDir,
    files: Vec<PathBuf>,
    /// Their groups, recording rules first, since the others read them. promtool takes any order else.
    groups: Vec<String>,
    /// The metrics that they name.
    wanted: BTreeSet<String>,
    alerts: BTreeSet<String>,
}

impl Rules {
    /// The rule files of a folder.
    pub fn folder(folder: &Path) -> Result<Self> {
        let files = rule_files(folder)?;
        if files.is_empty() {
            bail!(
                "{}: no *.rules.yml there; give --rules DIR",
                folder.display()
            );
        }
        Self::files(&files)
    }

    /// These rule files.
    pub fn files(files: &[PathBuf]) -> Result<Self> {
        let mut rules = Self {
            folder: tempfile::tempdir().context("no temporary folder")?,
            files: Vec::new(),
            groups: Vec::new(),
            wanted: BTreeSet::new(),
            alerts: BTreeSet::new(),
        };
        let recording = |file: &&PathBuf| {
            file.file_name()
                .is_some_and(|name| name == "recording.rules.yml")
        };
        let (first, rest): (Vec<&PathBuf>, Vec<&PathBuf>) = files.iter().partition(recording);
        for file in first.into_iter().chain(rest) {
            rules
                .add(file)
                .with_context(|| format!("{}", file.display()))?;
        }
        Ok(rules)
    }

    fn add(&mut self, file: &Path) -> Result<()> {
        static METRIC: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"\btraining_[a-z0-9_]+").expect("constant"));
        let text = std::fs::read_to_string(file)?;
        let mut rules: Value = serde_yaml::from_str(&text)?;
        let groups = rules
            .get_mut("groups")
            .and_then(Value::as_sequence_mut)
            .ok_or_else(|| anyhow!("no `groups` in it"))?;
        for group in groups {
            self.groups
                .extend(group.get("name").and_then(Value::as_str).map(str::to_owned));
            for rule in group
                .get_mut("rules")
                .and_then(Value::as_sequence_mut)
                .into_iter()
                .flatten()
            {
                let expr = rule.get("expr").and_then(Value::as_str).unwrap_or_default();
                self.wanted
                    .extend(METRIC.find_iter(expr).map(|name| name.as_str().to_owned()));
                let alert = rule.get("alert").and_then(Value::as_str);
                self.alerts.extend(alert.map(str::to_owned));
                rule.as_mapping_mut()
                    .and_then(|rule| rule.remove("annotations"));
            }
        }
        let copy = self
            .folder
            .path()
            .join(file.file_name().unwrap_or_default());
        std::fs::write(&copy, serde_yaml::to_string(&rules)?)?;
        self.files.push(copy);
        Ok(())
    }

    /// Fails if an alert that is expected is in none of the files.
    pub fn know<'a>(&self, mut expected: impl Iterator<Item = &'a String>) -> Result<()> {
        match expected.find(|alert| !self.alerts.contains(*alert)) {
            Some(alert) => bail!(
                "expect: no alert `{alert}` in the rules; known are {}",
                self.alerts.iter().cloned().collect::<Vec<_>>().join(", ")
            ),
            None => Ok(()),
        }
    }

    /// Lets promtool evaluate the rules over scenarios that share a world.
    pub fn evaluate<S: AsRef<[Scrape]>>(&self, worlds: &[S]) -> Result<Vec<Evaluated>> {
        if worlds.is_empty() {
            return Ok(Vec::new());
        }
        let file = tempfile::Builder::new()
            .suffix(".test.yml")
            .tempfile_in(self.folder.path())?;
        std::fs::write(&file, self.test(worlds))?;
        #[expect(clippy::disallowed_methods, reason = "promtool evaluates the rules")]
        let output = Command::new("promtool")
            .args(["test", "rules"])
            .arg(file.path())
            // Its garbage is collected less often: a fifth of its time.
            .env("GOGC", "800")
            .output()
            .context(
                "promtool cannot be started; it is part of Prometheus (tests/run.sh brings it)",
            )?;
        let said = [output.stdout, output.stderr].concat();
        let mut all = vec![Evaluated::default(); worlds.len()];
        read(&String::from_utf8_lossy(&said), &mut all)?;
        // The world goes on until its longest scenario is over.
        for (evaluated, scrapes) in all.iter_mut().zip(worlds) {
            let end = scrapes
                .as_ref()
                .last()
                .map_or(0.0, |scrape| scrape.at.round());
            evaluated.until(end);
        }
        Ok(all)
    }

    fn test<S: AsRef<[Scrape]>>(&self, worlds: &[S]) -> String {
        let files: Vec<String> = self
            .files
            .iter()
            .map(|file| format!("'{}'", file.display()))
            .collect();
        let mut test = format!(
            "rule_files: [{}]\nevaluation_interval: {SCRAPE}s\ngroup_eval_order: [{}]\ntests:\n  - interval: {SCRAPE}s\n    \
             input_series:\n{}    promql_expr_test:\n",
            files.join(", "),
            self.groups.join(", "),
            input(worlds, &self.wanted),
        );
        let scrapes = worlds.iter().filter_map(|scrapes| scrapes.as_ref().last());
        let last = scrapes.map(|scrape| step(scrape.at)).max().unwrap_or(0);
        for n in 0..=last {
            let at = n as f64 * SCRAPE;
            for expr in ["ALERTS{alertstate=\"firing\"}", "run:training_verdict:info"] {
                let _ = writeln!(test, "      - {{expr: '{expr}', eval_time: {at}s}}");
            }
        }
        test
    }
}

impl Evaluated {
    fn until(&mut self, end: f64) {
        self.alerts.retain(|_, times| {
            times.retain(|&t| t <= end);
            !times.is_empty()
        });
        for verdicts in self.verdicts.values_mut() {
            verdicts.retain(|&t, _| t as f64 <= end);
        }
    }
}

/// The rule files of a folder, in the order of their names.
pub fn rule_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let pattern = std::path::absolute(folder)?.join("*.rules.yml");
    let mut files: Vec<PathBuf> = glob::glob(&pattern.to_string_lossy())?.flatten().collect();
    files.sort();
    Ok(files)
}

/// Reads what promtool found beside the nothing that was claimed, into the scenarios that it is of. What is of no run and
/// no node is of the only one.
fn read(said: &str, all: &mut [Evaluated]) -> Result<()> {
    static ASKED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"^\s*expr: "(?<expr>.*)", time: (?<time>\S+),$"#).expect("constant")
    });
    static SAMPLE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\{(?<labels>(?:[a-z_]+=\x22(?:[^\x22\\]|\\.)*\x22(?:, )?)*)\} ")
            .expect("constant")
    });
    static LABEL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?<name>[a-z_]+)=\x22(?<value>(?:[^\x22\\]|\\.)*)\x22").expect("constant")
    });
    let mut asked: Option<(bool, f64)> = None;
    let mut understood = said.contains("SUCCESS");
    for line in said.lines() {
        if let Some(found) = ASKED.captures(line) {
            let time = seconds(&found["time"])
                .with_context(|| format!("promtool: time {}", &found["time"]))?;
            asked = Some((found["expr"].starts_with("ALERTS"), time));
            understood = true;
        }
        let Some((alerts, time)) = asked.filter(|_| line.trim_start().starts_with("got:")) else {
            continue;
        };
        for sample in SAMPLE.captures_iter(line) {
            let labels: BTreeMap<&str, String> = LABEL
                .captures_iter(sample.name("labels").map_or("", |m| m.as_str()))
                .map(|label| {
                    (
                        label.name("name").map_or("", |m| m.as_str()),
                        label["value"].replace("\\\"", "\""),
                    )
                })
                .collect();
            let label = |name: &str| labels.get(name).map_or("", String::as_str);
            let of_run = unmarked(label("run"));
            let whose = of_run.or(unmarked(label("instance")));
            let Some(evaluated) = all.get_mut(whose.map_or(0, |(number, _)| number)) else {
                continue;
            };
            let run = of_run.map_or("", |(_, run)| run).to_owned();
            if alerts {
                let alert = Alert {
                    name: label("alertname").to_owned(),
                    severity: label("severity").to_owned(),
                    run,
                };
                evaluated.alerts.entry(alert).or_default().push(time);
            } else {
                evaluated
                    .verdicts
                    .entry(run)
                    .or_default()
                    .insert(time as u64, label("verdict").to_owned());
            }
        }
    }
    if !understood {
        bail!("promtool: {said}");
    }
    Ok(())
}

/// A time as Prometheus writes it: `1h2m30s`.
fn seconds(text: &str) -> Option<f64> {
    let mut total = 0.0;
    let mut number = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_ascii_digit() {
            number.push(c);
            continue;
        }
        let unit = match c {
            'm' if chars.peek() == Some(&'s') => {
                chars.next();
                0.001
            }
            's' => 1.0,
            'm' => 60.0,
            'h' => 3600.0,
            'd' => 86400.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * unit;
        number.clear();
    }
    Some(total)
}
