//! A node in virtual time: recorded runs, the GPUs they would have, and what their processes and files did.
//!
//! Pure: what is true at a virtual second is computed from the recordings, and nothing else is known. `demo` lets it
//! drive the real threads and the real server.

pub mod recording;
pub mod simulate;
pub mod spec;
pub mod world;

use include_dir::{Dir, include_dir};
use serde::Deserialize;

use crate::job::{Phase, Unix};
use crate::node::gpu::Gpu;
use crate::node::process::Seen;
use recording::{Recording, Texts};
use world::FIRST_PID;

static RECORDINGS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/tests/joint");
static SCENARIOS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/src/scenario/demos");

/// The file's form.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    gpus: Boards,
    runs: Vec<Played>,
}

/// The simulated boards; all alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Boards {
    count: u32,
    name: String,
    power_limit_watts: f64,
    memory_bytes: f64,
    memory_used_bytes: f64,
    /// While the run trains.
    working: Draw,
    /// At all other times.
    idle: Draw,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Draw {
    util: f64,
    watts: f64,
}

/// One recorded run on the node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Played {
    recording: String,
    /// When it begins, in virtual seconds.
    starts: f64,
    /// From this second of the recording on, nothing moves any more; absent where it runs to its end.
    #[serde(default)]
    held_at: Option<f64>,
    /// How many files a whole validation pass opens.
    val_files: u64,
}

/// A node that can be asked what is true at any virtual second.
#[derive(Clone, Debug)]
pub struct Node {
    /// What this shows, for people.
    pub about: String,
    boards: Boards,
    /// Its runs, in the order in which they begin.
    pub runs: Vec<Run>,
}

/// One run of the node.
#[derive(Clone, Debug)]
pub struct Run {
    /// The recording's name, and the stem of its log.
    pub name: String,
    /// When it begins, in virtual seconds.
    pub starts: f64,
    /// How many files a whole validation pass opens.
    pub val_files: u64,
    held_at: Option<f64>,
    pid: u32,
    recording: Recording,
}

impl Node {
    /// The names of the built-in scenarios.
    pub fn names() -> Vec<String> {
        SCENARIOS
            .files()
            .filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned()))
            .collect()
    }

    /// A built-in scenario.
    pub fn built_in(name: &str) -> Result<Self, String> {
        let text = SCENARIOS
            .get_file(format!("{name}.yaml"))
            .and_then(|file| file.contents_utf8());
        let text = text.ok_or_else(|| {
            format!(
                "no scenario `{name}`; known are {}",
                Self::names().join(", ")
            )
        })?;
        Self::parse(text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: File = serde_yaml::from_str(text).map_err(|e| e.to_string())?;
        let mut runs = Vec::new();
        for (played, pid) in file.runs.into_iter().zip(FIRST_PID..) {
            runs.push(Run {
                recording: recorded(&played.recording)?,
                name: played.recording,
                starts: played.starts,
                held_at: played.held_at,
                val_files: played.val_files,
                pid,
            });
        }
        Ok(Self {
            about: file.about,
            boards: file.gpus,
            runs,
        })
    }

    /// The GPUs at `t`.
    pub fn gpus(&self, t: Unix) -> Vec<Gpu> {
        let live: Vec<&Run> = self.runs.iter().filter(|run| run.lives(t)).collect();
        let training = live.iter().any(|run| run.phase(t) == Phase::Train);
        let trained: f64 = self
            .runs
            .iter()
            .map(|run| run.recording.trained_by(run.own_time(t)))
            .sum();
        let Boards { working, idle, .. } = self.boards;
        let now = if training { working } else { idle };
        (0..self.boards.count)
            .map(|index| Gpu {
                index,
                uuid: format!("GPU-simulated-{index:04}"),
                up: true,
                name: self.boards.name.clone(),
                pci_bus_id: format!("00000000:{:02X}:00.0", index + 1),
                driver_version: "simulated".to_owned(),
                mig_mode: "disabled".to_owned(),
                util_source: "simulated".to_owned(),
                util: Some(now.util),
                busy_seconds: Some(working.util * trained + idle.util * (t - trained)),
                energy_joules: Some(working.watts * trained + idle.watts * (t - trained)),
                power_watts: Some(now.watts),
                power_limit_watts: Some(self.boards.power_limit_watts),
                memory_used_bytes: Some(if live.is_empty() {
                    0.0
                } else {
                    self.boards.memory_used_bytes
                }),
                memory_capacity_bytes: Some(self.boards.memory_bytes),
                temperature_celsius: Some(if training { 61.0 } else { 38.0 }),
                sm_clock_hertz: Some(if training { 1.98e9 } else { 3.45e8 }),
                pids: Some(live.iter().map(|run| run.pid).collect()),
                ..Gpu::default()
            })
            .collect()
    }

    /// The run whose log has this stem.
    pub fn run(&self, name: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.name == name)
    }
}

impl Run {
    /// Its log's bytes at `t`.
    pub fn log(&self, t: Unix) -> &[u8] {
        &self.recording.log[..self.recording.bytes_at(self.own_time(t))]
    }

    /// The validation files that it has opened by `t`.
    pub fn files(&self, t: Unix) -> recording::Files {
        self.recording.files_at(self.own_time(t))
    }

    /// Its processes at `t`; none before it begins and after it has ended.
    pub fn processes(&self, t: Unix) -> Seen {
        let counters = self.recording.counters_at(self.own_time(t));
        if !self.lives(t) || counters.processes == 0 {
            return Seen::default();
        }
        // Which files were opened is seen by the real watch.
        Seen {
            pids: vec![self.pid],
            counters: crate::node::process::Counters {
                files_opened: None,
                ..counters
            },
            ..Seen::default()
        }
    }

    /// What it is really doing at `t`.
    pub fn phase(&self, t: Unix) -> Phase {
        self.recording.phase_at(self.own_time(t))
    }

    /// Its processes live at `t`.
    pub fn lives(&self, t: Unix) -> bool {
        t >= self.starts && !self.phase(t).over()
    }

    /// The recording's second at `t`.
    fn own_time(&self, t: Unix) -> f64 {
        let own = t - self.starts;
        self.held_at.map_or(own, |held| own.min(held))
    }
}

/// A recording that is built in.
fn recorded(name: &str) -> Result<Recording, String> {
    let bytes = |file: &str| {
        let found = RECORDINGS.get_file(format!("{name}/{file}"));
        found
            .map(|file| file.contents())
            .ok_or_else(|| format!("no recording `{name}` with a file `{file}`"))
    };
    let text =
        |file: &str| std::str::from_utf8(bytes(file)?).map_err(|e| format!("{name}/{file}: {e}"));
    Recording::parse(Texts {
        log: bytes("train.log")?,
        timeline: text("timeline.tsv")?,
        evidence: text("evidence.csv")?,
        files: text("files.tsv")?,
        truth: text("truth.jsonl")?,
    })
    .map_err(|e| format!("{name}/{e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_demo_can_be_played() {
        for name in Node::names() {
            let node = Node::built_in(&name).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(
                !node.runs.is_empty() && !node.gpus(0.0).is_empty(),
                "{name}"
            );
        }
    }

    #[test]
    fn training_draws_and_validation_idles() {
        let node = Node::built_in("eagle3").expect("built in");
        let first = &node.runs[0];
        let (train, validation) = (first.starts + 30.0, first.starts + 60.0);
        assert_eq!(
            (first.phase(train), first.phase(validation)),
            (Phase::Train, Phase::Validation)
        );
        assert_eq!(
            (
                node.gpus(train)[0].power_watts,
                node.gpus(validation)[0].power_watts
            ),
            (Some(380.0), Some(80.0))
        );
        assert!(
            first.files(validation).opened > 100
                && first.log(validation).len() == first.log(validation + 30.0).len()
        );
    }
}
