//! A scenario file: what happens on one node, or on several nodes of a run, and which alerts must fire when.
//!
//! Times are seconds, or words such as `90s`, `15m`, `1h30m`. A list of spans says what holds from its `at` on, until
//! the next one begins.

mod check;
pub mod time;

use std::collections::BTreeMap;

use crate::config::Alerting;
use crate::job::cadence::Limits;
use crate::log::preset::wrong::Wrong;
use check::{Checked, all_checked, some_checked};
use time::Time;

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
    #[serde(deserialize_with = "all_checked")]
    pub nodes: Vec<Node>,
    /// For each alert, when it must fire; all others must be silent.
    #[serde(default)]
    pub expect: BTreeMap<String, Vec<Expected>>,
    /// Which verdict must hold when; at other times, any may.
    #[serde(default, deserialize_with = "all_checked")]
    pub verdicts: Vec<Word>,
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
    #[serde(deserialize_with = "all_checked")]
    pub runs: Vec<Run>,
    /// What goes wrong with the exporter or its sources.
    #[serde(deserialize_with = "all_checked")]
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
    /// Bytes of memory; absent where the driver does not tell.
    #[serde(default)]
    pub memory_bytes: Option<f64>,
    /// They are split into MIG instances.
    #[serde(default)]
    pub mig: bool,
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
    /// Bytes of memory in use; absent where the driver does not tell.
    #[serde(default)]
    pub memory_used_bytes: Option<f64>,
    /// Errors that the driver reports as the span begins.
    #[serde(default)]
    pub xids: Vec<u64>,
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
    #[serde(deserialize_with = "all_checked")]
    pub log: Vec<LogSpan>,
    /// What its processes do; absent where they are not seen.
    #[serde(deserialize_with = "some_checked")]
    pub processes: Option<Vec<ProcessSpan>>,
    /// Which validation files it opens; absent where no folder is watched.
    #[serde(deserialize_with = "some_checked")]
    pub data_files: Option<Vec<FileSpan>>,
    /// The folder of these files; runs that name the same one share it. Else it has one of its own.
    pub data_folder: Option<String>,
    /// How loudly its alerts speak, where that is configured.
    pub alerting: Option<Alerting>,
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
    /// When, or from when on. What was written before the scenario begins, at `-2h`, stands there from its start.
    pub at: Time,
    /// The line, without its end; `{n}` counts from `n` on, `{o}` from 0 on. In double quotes, escapes such as `\r` and
    /// `\e` stand for their bytes.
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
    /// Instead of a line: the file is moved aside, and a new one begins.
    #[serde(default)]
    pub rotated: bool,
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
    /// So many times slower than recorded.
    #[serde(default = "one")]
    pub stretch: f64,
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
    #[serde(default)]
    pub rate: f64,
    /// Instead of a rate: the files of a recorded run, once.
    #[serde(default)]
    pub recorded: Option<String>,
    /// So many times slower than recorded.
    #[serde(default = "one")]
    pub stretch: f64,
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
    /// The machine sleeps: no process runs, no exporter answers. What logs would have got comes when it wakes.
    Suspend,
    /// The exporter is stopped (SIGSTOP) and then goes on; trainings run meanwhile.
    ExporterPaused,
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
    /// With this severity.
    #[serde(default)]
    pub severity: Option<String>,
}

/// Which verdict the fleet must give, and when.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// On this run; absent for every run.
    #[serde(default)]
    pub run: Option<String>,
    /// Not before this.
    pub from: Time,
    /// Until this; absent for the end.
    #[serde(default)]
    pub until: Option<Time>,
    /// It may begin so much later.
    #[serde(default = "slack")]
    pub slack: Time,
    /// The word, as in `run:training_verdict:info`.
    pub word: String,
}

const fn slack() -> Time {
    Time(120.0)
}

impl Scenario {
    /// Reads a scenario; an error names line and column, and the way out.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        serde_yaml::from_str(text)
            .map(|Checked(scenario)| scenario)
            .map_err(|e| Wrong::form(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_scenario_is_refused_with_its_place() {
        let bad = |text: &str| Scenario::parse(text).expect_err(text).to_string();
        assert!(bad("about: x\nduration: 5\nnodes: []\n").contains("at least one node"));
        assert!(bad("about: x\nduration: soon\nnodes: []\n").contains("such as 90s"));
        assert!(
            bad("about: x\nduration: 1m\nnodes: [{nmae: a}]\n").contains("unknown field `nmae`")
        );
        let run =
            "about: x\nduration: 1m\nnodes:\n  - name: a\n    runs:\n      - run: r\n        ";
        for (text, why) in [
            ("log: [{at: 0s, line: x, recorded: y}]", "7:"),
            (
                "log: [{at: 0s, line: x, recorded: y}]",
                "one of `line`, `recorded` and `rotated`",
            ),
            ("log: [{at: 0s, line: x, every: 0s}]", "`every`"),
            ("processes: [{at: 1m}, {at: 0s}]", "in order"),
            ("data_files: [{at: 0s, rate: 1, recorded: x}]", "either"),
            ("alerting: loud", "expected one of `off`, `warn`, `page`"),
        ] {
            let error = bad(&format!("{run}{text}\n"));
            assert!(error.contains(why), "{text}: {error}");
        }
        let word =
            "about: x\nduration: 1m\nnodes: [{name: a}]\nverdicts: [{from: 0s, word: hanging}]\n";
        assert!(bad(word).starts_with("4:"), "{}", bad(word));
        assert!(bad(word).contains("no verdict `hanging`"), "{}", bad(word));
    }
}
