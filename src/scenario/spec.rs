//! A scenario file: what happens on one node, or on several nodes of a run, and which alerts must fire when.
//!
//! Times are seconds, or words such as `90s`, `15m`, `1h30m`. A list of spans says what holds from its `at` on, until
//! the next one begins.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::job::cadence::Limits;

/// A length of time, or a time since the beginning, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Time(pub f64);

/// The file's form.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What happens, for people.
    pub about: String,
    /// How long it lasts.
    pub duration: Time,
    /// The limits of all exporters.
    #[serde(default)]
    pub limits: Limits,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// For each alert, when it must fire; all others must be silent.
    #[serde(default)]
    pub expect: BTreeMap<String, Vec<Expected>>,
}

/// One node with its exporter.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Node {
    /// Its name: the label `instance`.
    pub name: String,
    /// Its boards; none on a node without a driver.
    pub gpus: Option<Gpus>,
    /// Its runs.
    pub runs: Vec<Run>,
    /// What goes wrong with the exporter or its sources.
    pub faults: Vec<Fault>,
}

/// Boards, all alike.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpus {
    /// How many.
    pub count: u32,
    /// Watts.
    #[serde(default = "limit_watts")]
    pub limit_watts: f64,
    /// What they do.
    pub spans: Vec<GpuSpan>,
}

const fn limit_watts() -> f64 {
    700.0
}

/// What boards do from a time on.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuSpan {
    /// From here on.
    pub at: Time,
    /// Utilisation, 0 to 1; absent where the driver does not tell.
    #[serde(default)]
    pub util: Option<f64>,
    /// Watts; absent where the driver does not tell.
    #[serde(default)]
    pub watts: Option<f64>,
    /// The driver does not answer for them.
    #[serde(default)]
    pub lost: bool,
    /// Only these boards; else all.
    #[serde(default)]
    pub only: Option<Vec<u32>>,
}

/// One run, as this node has it.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// Its name.
    pub run: String,
    /// Whose it is.
    pub user: String,
    /// Whose team's.
    pub team: String,
    /// Read by this preset, whatever its lines show.
    pub preset: Option<String>,
    /// What its log says; nothing on a node without the run's log.
    pub log: Vec<LogSpan>,
    /// What its processes do; absent where they are not seen.
    pub processes: Option<Vec<ProcessSpan>>,
    /// Which validation files it opens; absent where no folder is watched.
    pub data_files: Option<Vec<FileSpan>>,
    /// How many nodes the run should have, where it is configured.
    pub nodes: Option<u64>,
    /// How many files a whole validation opens, where it is configured.
    pub val_files: Option<u64>,
    /// Which boards its processes hold; else all.
    pub gpus: Option<Vec<u32>>,
}

/// What a log says: one line, or the same line again and again.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSpan {
    /// When, or from when on.
    pub at: Time,
    /// The line, without its end; `{n}` counts from `n` on, `{o}` from 0 on.
    #[serde(default)]
    pub line: Option<String>,
    /// Again each so many seconds; else once.
    #[serde(default)]
    pub every: Option<Time>,
    /// Not from here on.
    #[serde(default)]
    pub until: Option<Time>,
    /// The first `{n}`.
    #[serde(default)]
    pub n: u64,
    /// What ends the line.
    #[serde(default)]
    pub end: LineEnd,
    /// Instead of a line: a recorded log with its timeline.
    #[serde(default)]
    pub recorded: Option<String>,
    /// So many times slower than recorded.
    #[serde(default = "one")]
    pub stretch: f64,
}

const fn one() -> f64 {
    1.0
}

/// What ends a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LineEnd {
    /// A newline.
    #[default]
    Newline,
    /// A carriage return, as bars have it.
    Return,
    /// Nothing: an unfinished line.
    Nothing,
}

/// What the processes of a run do from a time on: rates for a second, summed over ranks and workers.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessSpan {
    /// From here on.
    pub at: Time,
    /// Ranks that live.
    #[serde(default = "one_rank")]
    pub ranks: u64,
    /// Loader workers that live.
    #[serde(default)]
    pub workers: u64,
    /// Bytes read by main threads.
    #[serde(default)]
    pub read: f64,
    /// Bytes written by main threads.
    #[serde(default)]
    pub write: f64,
    /// Page faults of main threads.
    #[serde(default)]
    pub faults: f64,
    /// Cores used by main threads.
    #[serde(default)]
    pub cpu: f64,
    /// Cores used by all threads.
    #[serde(default)]
    pub all_cpu: f64,
    /// Cores used by other new children, such as compilers.
    #[serde(default)]
    pub child_cpu: f64,
    /// Stopped ones.
    #[serde(default)]
    pub stopped: u64,
    /// Ones in uninterruptible sleep.
    #[serde(default)]
    pub uninterruptible: u64,
    /// Main threads that wait in a write to stdout.
    #[serde(default)]
    pub stdout_blocked: u64,
    /// What they read and write may not be seen.
    #[serde(default)]
    pub limited: bool,
    /// Instead of rates: a recorded evidence file, again and again between these of its seconds.
    #[serde(default)]
    pub evidence: Option<String>,
    /// The recording's first second.
    #[serde(default)]
    pub from: Time,
    /// The recording's last second; absent for its end.
    #[serde(default)]
    pub until: Option<Time>,
}

const fn one_rank() -> u64 {
    1
}

/// Validation files are opened from a time on.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSpan {
    /// From here on.
    pub at: Time,
    /// Files for a second, each a new one; 0 for none.
    pub rate: f64,
}

/// What goes wrong on a node.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// From here on.
    #[serde(default)]
    pub at: Time,
    /// Until here; absent for ever.
    #[serde(default)]
    pub until: Option<Time>,
    /// Seconds, for a skew.
    #[serde(default)]
    pub seconds: f64,
}

/// What can go wrong on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Scrapes fail: `up` is 0 and all series are stale.
    ScrapesFail,
    /// The node has no such target any more: no series at all, not even `up`.
    TargetGone,
    /// The exporter begins anew at `at`.
    Restart,
    /// The driver does not answer.
    NvmlBlind,
    /// The log cannot be read.
    LogUnreadable,
    /// The processes cannot be seen.
    ProcessesUnseen,
    /// The node's clock is ahead by so many seconds.
    ClockSkew,
}

/// When an alert must fire.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Not before this.
    pub from: Time,
    /// Until this; absent for the end.
    #[serde(default)]
    pub until: Option<Time>,
    /// It may begin and end so much later.
    #[serde(default = "slack")]
    pub slack: Time,
    /// Of this run only.
    #[serde(default)]
    pub run: Option<String>,
}

const fn slack() -> Time {
    Time(120.0)
}

impl Scenario {
    /// Reads a scenario; the error names the line where it can.
    pub fn parse(text: &str) -> Result<Self, String> {
        let scenario: Self = serde_yaml::from_str(text).map_err(|e| e.to_string())?;
        if scenario.duration.0 <= 0.0 {
            return Err("duration: must be above 0".to_owned());
        }
        if scenario.nodes.is_empty() {
            return Err("nodes: a scenario has at least one node".to_owned());
        }
        for node in &scenario.nodes {
            if node.name.is_empty() {
                return Err("nodes: every node has a name".to_owned());
            }
            for run in &node.runs {
                if run.run.is_empty() {
                    return Err(format!(
                        "node {}: every run has a name, `run: NAME`",
                        node.name
                    ));
                }
                for span in &run.log {
                    if span.line.is_some() == span.recorded.is_some() {
                        return Err(format!(
                            "run {}: a log entry has either `line` or `recorded`",
                            run.run
                        ));
                    }
                    if span.every.is_some_and(|every| every.0 <= 0.0) || span.stretch <= 0.0 {
                        return Err(format!(
                            "run {}: `every` and `stretch` are above 0",
                            run.run
                        ));
                    }
                }
            }
        }
        Ok(scenario)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl Visitor<'_> for Words {
            type Value = Time;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("seconds, or a time such as 90s, 15m or 1h30m")
            }
            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Time, E> {
                Ok(Time(seconds))
            }
            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Time, E> {
                Ok(Time(seconds as f64))
            }
            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Time, E> {
                Ok(Time(seconds as f64))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
                time(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Words)
    }
}

/// Reads `1h30m` and the like.
fn time(text: &str) -> Option<Time> {
    let mut seconds = 0.0;
    let mut number = String::new();
    for c in text.chars() {
        let unit = match c {
            '0'..='9' | '.' => {
                number.push(c);
                continue;
            }
            's' => 1.0,
            'm' => 60.0,
            'h' => 3600.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * unit;
        number.clear();
    }
    (number.is_empty() && !text.is_empty()).then_some(Time(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_write_them() {
        for (text, seconds) in [
            ("90s", Some(90.0)),
            ("1h30m", Some(5400.0)),
            ("2.5m", Some(150.0)),
            ("5", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(time(text).map(|time| time.0), seconds, "{text}");
        }
    }

    #[test]
    fn a_bad_scenario_is_refused_with_its_place() {
        let bad = |text: &str| Scenario::parse(text).expect_err(text);
        assert!(bad("about: x\nduration: 5\nnodes: []\n").contains("at least one node"));
        assert!(bad("about: x\nduration: soon\nnodes: []\n").contains("such as 90s"));
        assert!(
            bad("about: x\nduration: 1m\nnodes: [{nmae: a}]\n").contains("unknown field `nmae`")
        );
    }
}
