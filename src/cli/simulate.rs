//! `training-exporter simulate`: scenarios through the product's own code and the real rules, in virtual time.

mod expect;
pub mod play;
pub mod promtool;
mod recorded;
mod series;
pub mod summary;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::scenario::simulate::SCRAPE;
use play::{Outcome, play};
use promtool::{Alert, Rules, rule_files};
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
    /// Where recorded logs, evidence and files are: folders `logs`, `joint`, `recordings` and `evidence` in it. Looked
    /// for first in the nearest folder above the scenario that has `logs`.
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

/// Plays each scenario; fails if an expectation is not met.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let mut unmet = 0;
    let files = files(&args.scenarios)?;
    let baselines = match args.summary {
        true => rule_files(&args.baselines)?,
        false => Vec::new(),
    };
    let mut summary = args.summary.then(|| Summary::new(&baselines));
    let others: Vec<Rules> = baselines
        .iter()
        .map(|file| Rules::files(std::slice::from_ref(file)))
        .collect::<Result<_>>()?;
    let rules = Rules::folder(&args.rules)?;
    play(
        &files,
        &rules,
        &others,
        args.recordings.as_deref(),
        |file, outcome| {
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(e) => {
                    unmet += 1;
                    return Ok(writeln!(
                        out,
                        "{}: CANNOT BE PLAYED: {e:#}",
                        file.display()
                    )?);
                }
            };
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
                summary.add(&outcome);
            }
            Ok(())
        },
    )?;
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

/// What happened, change by change.
fn story(outcome: &Outcome, out: &mut dyn Write) -> Result<()> {
    let mut events: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (run, verdicts) in &outcome.evaluated.verdicts {
        let mut before: Option<(u64, &str)> = None;
        for (&t, verdict) in verdicts {
            let gap = before.filter(|(last, _)| t - last > SCRAPE as u64);
            if let Some((last, _)) = gap {
                let from = events.entry(last + SCRAPE as u64).or_default();
                from.push(format!("{run}: nothing is known"));
            }
            if gap.is_some() || before.is_none_or(|(_, word)| word != verdict) {
                let now = events.entry(t).or_default();
                now.push(format!("{run}: {verdict}"));
            }
            before = Some((t, verdict));
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
