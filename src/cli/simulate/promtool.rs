//! Scrapes -> the input of a promtool test, and what promtool says -> which alert fired when, and each verdict.
//!
//! The test asks at every evaluation for all firing alerts and all verdicts, and claims that there are none: promtool
//! then prints what there was. So the rules are evaluated by Prometheus' own code, with no copy of their meaning here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use regex::Regex;

use crate::scenario::simulate::{SCRAPE, Scrape};

/// What the rules made of a scenario. Times are the evaluations', in seconds.
#[derive(Clone, Debug, Default)]
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

/// Lets promtool evaluate the rule files of a folder over `scrapes`.
pub fn evaluate(scrapes: &[Scrape], rules: &Path) -> Result<Evaluated> {
    evaluate_files(scrapes, &rule_files(rules)?)
}

/// Lets promtool evaluate rule files over `scrapes`.
pub fn evaluate_files(scrapes: &[Scrape], rules: &[PathBuf]) -> Result<Evaluated> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let file = folder.path().join("scenario.test.yml");
    std::fs::write(&file, test(scrapes, rules)?)?;
    #[expect(clippy::disallowed_methods, reason = "promtool evaluates the rules")]
    let output = Command::new("promtool")
        .args(["test", "rules"])
        .arg(&file)
        .output()
        .context("promtool cannot be started; it is part of Prometheus (tests/run.sh brings it)")?;
    let said = [output.stdout, output.stderr].concat();
    read(&String::from_utf8_lossy(&said))
}

/// The rule files of a folder.
fn rule_files(rules: &Path) -> Result<Vec<PathBuf>> {
    let pattern = std::path::absolute(rules)?.join("*.rules.yml");
    let mut files: Vec<PathBuf> = glob::glob(&pattern.to_string_lossy())?.flatten().collect();
    files.sort();
    if files.is_empty() {
        bail!(
            "{}: no *.rules.yml there; give --rules DIR",
            rules.display()
        );
    }
    Ok(files)
}

/// The groups of the rule files: recording rules first, since the others read them. promtool takes any order else.
fn groups(files: &[PathBuf]) -> Result<Vec<String>> {
    static NAME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?m)^  - name: *(\S+)").expect("constant"));
    let recording = |file: &&PathBuf| {
        file.file_name()
            .is_some_and(|name| name == "recording.rules.yml")
    };
    let (first, rest): (Vec<&PathBuf>, Vec<&PathBuf>) = files.iter().partition(recording);
    let mut names = Vec::new();
    for file in first.into_iter().chain(rest) {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        names.extend(NAME.captures_iter(&text).map(|name| name[1].to_owned()));
    }
    Ok(names)
}

fn test(scrapes: &[Scrape], rules: &[PathBuf]) -> Result<String> {
    let mut columns: BTreeMap<String, BTreeMap<usize, &str>> = BTreeMap::new();
    let step = |at: f64| (at / SCRAPE).round() as usize;
    let last = scrapes.last().map_or(0, |scrape| step(scrape.at));
    for scrape in scrapes {
        let target = format!("instance=\"{}\",job=\"training\"", scrape.node);
        if scrape.target {
            let up = if scrape.page.is_some() { "1" } else { "0" };
            columns
                .entry(format!("up{{{target}}}"))
                .or_default()
                .insert(step(scrape.at), up);
        }
        for line in scrape
            .page
            .iter()
            .flat_map(|page| page.lines())
            .filter(|line| line.starts_with("training_"))
        {
            let Some((series, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let series = match series.split_once('{') {
                Some((name, labels)) => format!("{name}{{{target},{labels}"),
                None => format!("{series}{{{target}}}"),
            };
            columns
                .entry(series)
                .or_default()
                .insert(step(scrape.at), value);
        }
    }
    let files: Vec<String> = rules
        .iter()
        .map(|file| format!("'{}'", file.display()))
        .collect();
    let mut test = format!(
        "rule_files: [{}]\nevaluation_interval: {SCRAPE}s\ngroup_eval_order: [{}]\ntests:\n  - interval: {SCRAPE}s\n    \
         input_series:\n",
        files.join(", "),
        groups(rules)?.join(", "),
    );
    for (series, values) in &columns {
        let _ = writeln!(
            test,
            "      - {{series: '{}', values: '{}'}}",
            series.replace('\'', "''"),
            run_lengths(values, last)
        );
    }
    test += "    promql_expr_test:\n";
    for n in 0..=last {
        let at = n as f64 * SCRAPE;
        for expr in ["ALERTS{alertstate=\"firing\"}", "run:training_verdict:info"] {
            let _ = writeln!(test, "      - {{expr: '{expr}', eval_time: {at}s}}");
        }
    }
    Ok(test)
}

/// The values of a series, with repeats as promtool writes them; a series that is gone is stale.
fn run_lengths(values: &BTreeMap<usize, &str>, last: usize) -> String {
    let mut text = String::new();
    let first = values.keys().next().copied().unwrap_or(0);
    let value = |n: usize| {
        values
            .get(&n)
            .copied()
            .unwrap_or(if n < first { "_" } else { "stale" })
    };
    let mut n = 0;
    while n <= last {
        let now = value(n);
        let same = (n..=last).take_while(|&next| value(next) == now).count();
        let _ = match now {
            "_" => write!(text, "_x{same} "),
            "stale" => write!(text, "{}", "stale ".repeat(same)),
            number => write!(text, "{number}x{} ", same - 1),
        };
        n += same;
    }
    text
}

/// Reads what promtool found beside the nothing that was claimed.
fn read(said: &str) -> Result<Evaluated> {
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
    let mut evaluated = Evaluated::default();
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
            let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
            if alerts {
                let alert = Alert {
                    name: label("alertname"),
                    severity: label("severity"),
                    run: label("run"),
                };
                evaluated.alerts.entry(alert).or_default().push(time);
            } else {
                evaluated
                    .verdicts
                    .entry(label("run"))
                    .or_default()
                    .insert(time as u64, label("verdict"));
            }
        }
    }
    if !understood {
        bail!("promtool: {said}");
    }
    Ok(evaluated)
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
