//! The source of a dashboard: what it shows, without what Grafana wants to have said. One YAML file each.
//!
//! In an expression `@node`, `@run` and `@gpu` stand for the matchers of the dashboard's variables; `@verdict{}`,
//! `@phase{}` and `@state{}` for the number of a word; `@unwatched{}`, `@silent{}` and `@unsure{}` for what nobody watches.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde::Deserialize;

use super::words::{GPU_STATES, number, phases, verdicts};

/// The dashboards, by the names of their files.
pub(crate) const NAMES: [&str; 3] = ["fleet", "run", "gpu"];

/// One dashboard.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Board {
    pub(crate) uid: String,
    pub(crate) title: String,
    pub(crate) about: String,
    /// The time that it opens with.
    pub(crate) from: String,
    pub(crate) variables: Vec<String>,
    /// Alerts that are drawn over its timelines.
    #[serde(default)]
    pub(crate) alerts: Option<String>,
    pub(crate) rows: Vec<Row>,
}

/// Panels under one heading, left to right as they fit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) title: String,
    pub(crate) panels: Vec<Panel>,
}

/// One panel.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Panel {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) title: String,
    pub(crate) about: String,
    /// Columns of 24, and rows.
    pub(crate) size: [u64; 2],
    #[serde(default)]
    pub(crate) unit: Option<String>,
    #[serde(default)]
    pub(crate) max: Option<f64>,
    /// Lists of words that its numbers stand for.
    #[serde(default)]
    pub(crate) words: Vec<String>,
    #[serde(default)]
    pub(crate) steps: Vec<Step>,
    #[serde(default)]
    pub(crate) stack: Option<String>,
    #[serde(default)]
    pub(crate) bars: bool,
    #[serde(default)]
    pub(crate) queries: Vec<Query>,
    #[serde(default)]
    pub(crate) columns: Vec<Column>,
    /// The column that a table is sorted by.
    #[serde(default)]
    pub(crate) sort: Option<String>,
    #[serde(default)]
    pub(crate) text: String,
}

/// A colour, from a value on.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Step {
    From(f64, String),
    Base([String; 1]),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    pub(crate) expr: String,
    #[serde(default)]
    pub(crate) legend: String,
    /// `ceiling` or `quiet`: drawn unlike the others.
    #[serde(default)]
    pub(crate) line: Option<String>,
    /// Lists of words that only its numbers stand for.
    #[serde(default)]
    pub(crate) words: Vec<String>,
}

/// A column of a table: a label, or the value of the query of that letter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Column {
    pub(crate) of: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) unit: Option<String>,
    #[serde(default)]
    pub(crate) words: Vec<String>,
    #[serde(default)]
    pub(crate) steps: Vec<Step>,
    #[serde(default)]
    pub(crate) show: Option<String>,
    #[serde(default)]
    pub(crate) width: Option<u64>,
    /// The dashboard that a click leads to.
    #[serde(default)]
    pub(crate) link: Option<String>,
}

/// Reads the source of a dashboard.
pub(crate) fn board(name: &str) -> Board {
    let path = Path::new("grafana").join(format!("{name}.yaml"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_yaml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The expression as Grafana gets it.
pub(crate) fn spelled_out(expr: &str) -> String {
    static MACRO: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"@([a-z]+)\{([^{}]*)\}").expect("a pattern"));
    let wide = MACRO.replace_all(expr, |found: &Captures<'_>| named(&found[1], &found[2]));
    let wide = if MACRO.is_match(&wide) {
        spelled_out(&wide)
    } else {
        wide.into_owned()
    };
    wide.replace("@run", r#"@node, run="$run""#)
        .replace("@gpu", r#"@node, gpu=~"$gpu""#)
        .replace("@node", r#"job=~"$job", instance=~"$instance""#)
}

/// What a word with braces stands for.
fn named(name: &str, matchers: &str) -> String {
    let and = |more: &str| match matchers {
        "" => more.to_owned(),
        _ => format!("{more}, {matchers}"),
    };
    match name {
        "verdict" => number(&verdicts(), "run", |word| {
            format!("run:training_verdict:info{{{}}}", and(&format!("verdict=\"{word}\"")))
        }),
        "phase" => number(&phases(), "run", |word| {
            format!("run_phase:training_phase:info{{{}}}", and(&format!("phase=\"{word}\"")))
        }),
        "state" => number(GPU_STATES, "job, instance, gpu, uuid", |word| {
            format!("(training_gpu_state{{{}}} == 1)", and(&format!("state=\"{word}\"")))
        }),
        // At work when it was last seen within the day, and not judged now; one that is known to have vanished is told so.
        "unwatched" => format!(
            "(\n  group by (run) (last_over_time(training_phase{{{}}}[1d]) == 1)\n  \
             unless on (run) run:training_verdict:info\n  \
             unless on (run) last_over_time(run:training_gone:info[1d])\n)",
            and(r#"@node, phase=~"init|train|validation|checkpoint""#)
        ),
        // Seen within the day, and without an answer now.
        "silent" => format!(
            "(\n  group by (job, instance) (last_over_time(training_exporter_build_info{{{matchers}}}[1d]))\n  \
             unless on (job, instance) up{{{matchers}}} == 1\n)"
        ),
        // While any of this holds, "none" would be more than anybody knows.
        "unsure" => r#"(@silent{@node} or @unwatched{} or run:training_verdict:info{verdict=~"blind|node_missing"})"#
            .to_owned(),
        _ => panic!("@{name}{{}} stands for nothing"),
    }
}
