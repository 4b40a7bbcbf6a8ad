//! `training-exporter simulate`: scenarios through the product's own code and the real rules, in virtual time.

pub mod promtool;
pub mod summary;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use crate::config::read;
use crate::node::process::Counters;
use crate::scenario::recording::{evidence, timeline};
use crate::scenario::simulate::{SCRAPE, Scrape, Thought, simulate};
use crate::scenario::spec::{Expected, Scenario};
use crate::scenario::world::{Library, RecordedLog};
use promtool::{Alert, Evaluated, evaluate};
use summary::Summary;

/// Arguments of `simulate`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Scenario files, or folders of them.
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// The folder of the alert rules.
    #[arg(long, value_name = "DIR", default_value = "alerts")]
    rules: PathBuf,
    /// Where recorded logs and evidence are: folders `logs`, `joint`, `recordings` and `evidence` in it. Default: the
    /// nearest folder above the scenario that has `logs`.
    #[arg(long, value_name = "DIR")]
    recordings: Option<PathBuf>,
    /// Tell of each scenario only whether its expectations were met.
    #[arg(long)]
    quiet: bool,
    /// Measure all scenarios together, beside other ways to find a hang.
    #[arg(long)]
    summary: bool,
    /// The folder of the other ways' rules, each in its own `NAME.rules.yml`, for --summary.
    #[arg(long, value_name = "DIR", default_value = "tests/baselines")]
    baselines: PathBuf,
}

/// Recorded material in folders.
struct Folders(PathBuf);

impl Library for Folders {
    fn log(&self, name: &str) -> Result<RecordedLog, String> {
        let case = ["logs", "joint", "recordings"].map(|folder| self.0.join(folder).join(name));
        let case = case.into_iter().find(|case| case.is_dir());
        let case =
            case.ok_or_else(|| format!("no recorded log `{name}` under {}", self.0.display()))?;
        let text = |file: &str| {
            fs::read(case.join(file)).map_err(|e| format!("{}: {e}", case.join(file).display()))
        };
        let times = timeline(&String::from_utf8_lossy(&text("timeline.tsv")?))
            .map_err(|e| format!("{}/timeline.tsv:{e}", case.display()))?;
        Ok((text("train.log")?, times))
    }

    fn evidence(&self, name: &str) -> Result<Vec<(f64, Counters)>, String> {
        let files = [
            self.0.join("evidence").join(format!("{name}.csv")),
            self.0.join("joint").join(name).join("evidence.csv"),
            self.0.join("recordings").join(name).join("evidence.csv"),
        ];
        let file = files.into_iter().find(|file| file.is_file());
        let file = file
            .ok_or_else(|| format!("no recorded evidence `{name}` under {}", self.0.display()))?;
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        evidence(&text).map_err(|e| format!("{}:{e}", file.display()))
    }
}

/// A scenario that was played, and what came of it.
#[derive(Debug)]
pub struct Outcome {
    /// The scenario.
    pub scenario: Scenario,
    /// What the rules made of it.
    pub evaluated: Evaluated,
    /// What is not as expected; the first difference of each kind.
    pub differences: Vec<String>,
    /// What each scrape gave.
    pub scrapes: Vec<Scrape>,
}

/// Plays each scenario; fails if an expectation is not met.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let mut unmet = 0;
    let files = files(&args.scenarios)?;
    let mut summary = args
        .summary
        .then(|| Summary::new(&args.baselines))
        .transpose()?;
    for file in &files {
        let outcome = play(file, &args.rules, args.recordings.as_deref())?;
        let verdict = if outcome.differences.is_empty() {
            "as expected"
        } else {
            "NOT AS EXPECTED"
        };
        writeln!(
            out,
            "{}: {verdict}: {}",
            file.display(),
            outcome.scenario.about.trim()
        )?;
        if !args.quiet {
            story(&outcome, out)?;
        }
        for difference in &outcome.differences {
            writeln!(out, "    {difference}")?;
        }
        unmet += usize::from(!outcome.differences.is_empty());
        if let Some(summary) = &mut summary {
            summary.add(&outcome)?;
        }
    }
    if let Some(summary) = summary {
        summary.write(out)?;
    }
    if unmet > 0 {
        bail!("{unmet} of {} scenarios are not as expected", files.len());
    }
    Ok(())
}

/// The scenario files among files and folders.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let mut inside: Vec<PathBuf> = glob::glob(&path.join("**/*.yaml").to_string_lossy())?
                .flatten()
                .collect();
            inside.sort();
            files.extend(inside);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

/// Plays one scenario file.
pub fn play(file: &Path, rules: &Path, recordings: Option<&Path>) -> Result<Outcome> {
    let scenario = Scenario::parse(&read(file)?).map_err(|e| anyhow!("{}: {e}", file.display()))?;
    let near = file
        .ancestors()
        .skip(1)
        .find(|folder| folder.join("logs").is_dir());
    let library = Folders(recordings.or(near).unwrap_or(Path::new(".")).to_owned());
    let scrapes = simulate(&scenario, &library).map_err(|e| anyhow!("{}: {e}", file.display()))?;
    let evaluated = evaluate(&scrapes, rules).with_context(|| format!("{}", file.display()))?;
    let mut differences = unexpected(&scenario, &evaluated);
    if scenario.nodes.len() == 1 {
        differences.extend(disagreement(&scrapes, &evaluated));
    }
    Ok(Outcome {
        scenario,
        evaluated,
        differences,
        scrapes,
    })
}

/// Where the alerts are not as expected.
fn unexpected(scenario: &Scenario, evaluated: &Evaluated) -> Vec<String> {
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
            let must = (0..=scenario.duration.0 as u64).step_by(SCRAPE as usize);
            let mut must =
                must.filter(|&t| t as f64 >= span.from.0 + span.slack.0 && (t as f64) < until);
            if let Some(t) = must.find(|t| !fired.contains(t)) {
                differences.push(format!(
                    "{}: {name} should fire, and does not",
                    clock(t as f64)
                ));
            }
        }
    }
    differences
}

fn concerns(span: &Expected, alert: &Alert) -> bool {
    span.run.as_ref().is_none_or(|run| *run == alert.run)
}

fn covers(span: &Expected, t: f64, end: f64) -> bool {
    let until = span.until.map_or(end, |until| until.0 + span.slack.0);
    span.from.0 <= t && t <= until
}

/// The first time at which the recording rule and the node say different things of a run.
fn disagreement(scrapes: &[Scrape], evaluated: &Evaluated) -> Option<String> {
    for scrape in scrapes.iter().filter(|scrape| scrape.page.is_some()) {
        for (run, Thought { verdict, .. }) in &scrape.runs {
            let fleet = evaluated
                .verdicts
                .get(run)
                .and_then(|verdicts| verdicts.get(&(scrape.at as u64)));
            let fleet = fleet.map_or("nothing", String::as_str);
            if fleet != verdict.name() {
                let node = verdict.name();
                return Some(format!(
                    "{}: run {run}: the node says {node}, the rules say {fleet}",
                    clock(scrape.at)
                ));
            }
        }
    }
    None
}

/// What happened, change by change.
fn story(outcome: &Outcome, out: &mut dyn Write) -> Result<()> {
    let mut events: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (run, verdicts) in &outcome.evaluated.verdicts {
        let mut before = "";
        for (t, verdict) in verdicts {
            if verdict != before {
                events
                    .entry(*t)
                    .or_default()
                    .push(format!("{run}: {verdict}"));
                before = verdict;
            }
        }
    }
    for (alert, times) in &outcome.evaluated.alerts {
        for (i, &t) in times.iter().enumerate() {
            if i == 0 || t - times[i - 1] > SCRAPE {
                events
                    .entry(t as u64)
                    .or_default()
                    .push(format!("{} fires", called(alert)));
            }
            if times.get(i + 1).is_none_or(|next| next - t > SCRAPE)
                && t + SCRAPE <= outcome.scenario.duration.0
            {
                events
                    .entry((t + SCRAPE) as u64)
                    .or_default()
                    .push(format!("{} ends", called(alert)));
            }
        }
    }
    for (t, lines) in events {
        for line in lines {
            writeln!(out, "  {:>10}  {line}", clock(t as f64))?;
        }
    }
    Ok(())
}

fn called(alert: &Alert) -> String {
    let of = if alert.run.is_empty() {
        String::new()
    } else {
        format!(" of {}", alert.run)
    };
    format!("{} ({}){of}", alert.name, alert.severity)
}

/// Seconds as a time of the scenario.
fn clock(t: f64) -> String {
    let t = t as u64;
    format!("{}:{:02}:{:02}", t / 3600, t / 60 % 60, t % 60)
}
