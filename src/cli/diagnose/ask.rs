//! What an exporter says of its runs: `/api/v1/runs` as `web/view.rs` writes it, read leniently, since the exporter may
//! be of another version. What it does not say is absent.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::verdict::Verdict;

/// An exporter answers at once, or it is in trouble itself.
const PATIENCE: Duration = Duration::from_secs(3);
/// No answer is longer: 64 runs with all that is known of them fit a hundred times.
const LONGEST: u64 = 16 << 20;

/// An exporter.
pub(super) struct Exporter {
    url: String,
}

/// An answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Answer {
    pub(super) runs: Vec<RunSaid>,
    blind_spots: Vec<serde_json::Value>,
}

/// What it says of a run; the names are those of the answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RunSaid {
    pub(super) run: String,
    pub(super) verdict: String,
    pub(super) headline: String,
    pub(super) because: String,
    pub(super) first_step: Option<Step>,
    pub(super) phase: String,
    pub(super) epoch: Option<u64>,
    pub(super) step: Option<u64>,
    pub(super) validation: Option<Validation>,
    pub(super) progress: Option<Clock>,
    pub(super) work: Option<Clock>,
    pub(super) processes: Option<u64>,
    pub(super) gpus: Vec<Gpu>,
    pub(super) log: Log,
}

/// What to do first.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Step {
    pub(super) command: String,
}

/// The running validation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Validation {
    pub(super) done: u64,
    pub(super) total: Option<u64>,
    pub(super) source: String,
}

/// Seconds since something last moved, and how many are still healthy.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Clock {
    /// Seconds since it moved.
    pub(super) age: f64,
    /// Seconds that are still healthy.
    pub(super) ceiling: f64,
    /// The ceiling comes from what this run has shown.
    pub(super) learned: bool,
}

/// One GPU of a run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Gpu {
    pub(super) state: String,
    pub(super) util: Option<f64>,
    pub(super) power_watts: Option<f64>,
}

/// Its log.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Log {
    pub(super) path: String,
    pub(super) error: Option<String>,
    pub(super) bytes: u64,
    pub(super) last_write_age: Option<f64>,
}

impl Exporter {
    pub(super) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// It runs on this node, so the processes that it tells of are seen from here, too.
    pub(super) fn is_here(&self) -> bool {
        let uri = self.url.parse::<ureq::http::Uri>().ok();
        let host = uri.as_ref().and_then(|uri| uri.host());
        host.is_some_and(|host| host == "localhost" || host == "[::1]" || host.starts_with("127."))
    }

    /// Asks for all runs; the error is a sentence for people.
    pub(super) fn ask(&self) -> Result<Answer, String> {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            // It is beside us, or named: nobody stands between.
            .proxy(None)
            .build();
        let url = format!("{}/api/v1/runs", self.url);
        let answer = ureq::Agent::from(config).get(&url).call();
        let mut answer = answer.map_err(|e| format!("no exporter answers at {}: {e}", self.url))?;
        let body = answer.body_mut().with_config().limit(LONGEST).read_to_vec();
        let body = body.map_err(|e| format!("no exporter answers at {}: {e}", self.url))?;
        serde_json::from_slice(&body)
            .map_err(|e| format!("what answers at {} is no training-exporter: {e}", self.url))
    }
}

impl Answer {
    pub(super) fn run(&self, name: &str) -> Option<&RunSaid> {
        self.runs.iter().find(|run| run.run == name)
    }

    /// The run of that name, or those of that log; without either, all.
    pub(super) fn choose(&self, name: Option<&str>, log: Option<&Path>) -> Vec<RunSaid> {
        let fits = |run: &&RunSaid| match (name, log) {
            (Some(name), _) => is_named(&run.run, name),
            (None, Some(log)) => Path::new(&run.log.path) == log,
            (None, None) => true,
        };
        let exact = name.and_then(|name| self.run(name));
        match exact {
            Some(run) => vec![run.clone()],
            None => self.runs.iter().filter(fits).cloned().collect(),
        }
    }

    /// All its runs, for people.
    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self.runs.iter().map(|run| run.run.as_str()).collect();
        names.join(", ")
    }

    /// What it cannot see.
    pub(super) fn blind(&self) -> Vec<String> {
        let spots = self.blind_spots.iter().filter_map(|spot| spot.as_str());
        spots.map(str::to_owned).collect()
    }
}

impl RunSaid {
    /// Absent for a word that this version does not know.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        Verdict::named(&self.verdict)
    }

    /// It has ended, and nobody of it lives.
    pub(super) fn is_over(&self) -> bool {
        ["finished", "failed"].contains(&self.phase.as_str()) && self.processes.unwrap_or(0) == 0
    }
}

/// The run's name, with or without its host.
pub(super) fn is_named(run: &str, name: &str) -> bool {
    run == name || run.rsplit_once('@').is_some_and(|(short, _)| short == name)
}
