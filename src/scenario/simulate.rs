//! The product's own code in virtual time: bytes and facts in, one metric page for each scrape out.
//!
//! It makes the same calls as the source threads, in the same order and at the same pace (logs, GPUs and files each
//! second, processes each 5 s), but for the waiting. Nothing is computed here that the exporter would not compute.

use std::collections::BTreeMap;
use std::path::PathBuf;

use prometheus::TextEncoder;

use super::spec::{FaultKind, Node, Scenario};
use super::world::{FIRST_PID, Library, Played, gpus};
use crate::job::cadence::Limits;
use crate::job::clock::larger;
use crate::job::verdict::Facts;
use crate::job::{Phase, Unix};
use crate::log::lines::{Line, Lines};
use crate::log::reader::{Presets, Reader};
use crate::node::data::Opened;
use crate::node::process::Watcher;
use crate::state::{Run, State};

/// The scrape interval, in seconds.
pub const SCRAPE: f64 = 15.0;
/// Between two looks at processes, in seconds.
const LOOK: f64 = 5.0;
/// An unfinished last line rests after so many seconds.
const REST: f64 = 0.15;

/// What a scrape of one node gave.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// When, in virtual seconds.
    pub at: f64,
    /// Which node: the label `instance`.
    pub node: String,
    /// The page; absent if the scrape failed.
    pub page: Option<String>,
    /// The node is a target at all.
    pub target: bool,
    /// What the node thinks of each of its runs.
    pub runs: BTreeMap<String, Thought>,
}

/// What a node thinks of a run at a scrape.
#[derive(Clone, Debug)]
pub struct Thought {
    /// What its verdict follows from.
    pub facts: Facts,
    /// How many nodes the run should have, where it is configured.
    pub nodes: Option<u64>,
    /// The progress ceiling is learned from the run.
    pub learned: bool,
    /// Seconds since any progress or work, of processes or GPUs.
    pub still: Option<f64>,
}

/// One node with its exporter.
struct Site<'a> {
    spec: &'a Node,
    runs: Vec<Played>,
    presets: &'a Presets,
    limits: &'a Limits,
    exporter: Exporter,
}

/// All that an exporter has in memory.
struct Exporter {
    state: State,
    feeds: Vec<Feed>,
    /// Since when it runs.
    born: f64,
}

/// What it knows of one run beside the state.
struct Feed {
    lines: Lines,
    reader: Reader,
    /// Bytes up to here are read, in virtual seconds.
    read_until: f64,
    last_append: Option<f64>,
    watcher: Watcher,
    opened: Opened,
    /// Files opened before, over all passes.
    files: u64,
}

/// Plays a scenario and returns what each scrape gave, in order.
pub fn simulate(scenario: &Scenario, library: &dyn Library) -> Result<Vec<Scrape>, String> {
    let presets = Presets::built_in();
    let mut sites = Vec::new();
    for spec in &scenario.nodes {
        let mut runs = Vec::new();
        for (run, pid) in spec.runs.iter().zip(FIRST_PID..) {
            runs.push(Played::new(run, pid, scenario.duration.0, library)?);
        }
        let exporter = Exporter::new(&runs, &scenario.limits, &presets, 0.0);
        sites.push(Site {
            spec,
            runs,
            presets: &presets,
            limits: &scenario.limits,
            exporter,
        });
    }
    let mut scrapes = Vec::new();
    let seconds = scenario.duration.0 as u64;
    for t in 0..=seconds {
        let t = t as f64;
        for site in &mut sites {
            site.step(t);
            if t % SCRAPE == 0.0 {
                scrapes.push(site.scrape(t));
            }
        }
    }
    Ok(scrapes)
}

impl Exporter {
    fn new(runs: &[Played], limits: &Limits, presets: &Presets, born: f64) -> Self {
        let mut state = State::default();
        state.exporter.ready = true;
        let feed = |played: &Played| Feed {
            lines: Lines::default(),
            reader: presets.reader(
                played
                    .spec
                    .preset
                    .as_deref()
                    .and_then(|name| presets.named(name)),
            ),
            read_until: -1.0,
            last_append: None,
            watcher: Watcher::new(limits.work_window, 1.0),
            opened: Opened::default(),
            files: 0,
        };
        for played in runs {
            let mut run = Run::new(&played.spec.run, limits.clone());
            run.info.user.clone_from(&played.spec.user);
            run.info.team.clone_from(&played.spec.team);
            run.info.nodes = played.spec.nodes;
            run.info.log_path = format!("/runs/{}/train.log", played.spec.run);
            run.job.files_planned = played.spec.val_files;
            state.runs.insert(run.name.clone(), run);
        }
        Self {
            state,
            feeds: runs.iter().map(feed).collect(),
            born,
        }
    }
}

impl Site<'_> {
    fn fault(&self, kind: FaultKind, t: f64) -> bool {
        self.spec.faults.iter().any(|fault| {
            fault.kind == kind && fault.at.0 <= t && fault.until.is_none_or(|until| t < until.0)
        })
    }

    /// The node's own clock.
    fn clock(&self, t: f64) -> Unix {
        let skews = self
            .spec
            .faults
            .iter()
            .filter(|fault| fault.kind == FaultKind::ClockSkew && fault.at.0 <= t);
        t + skews.map(|fault| fault.seconds).sum::<f64>()
    }

    fn step(&mut self, t: f64) {
        if self
            .spec
            .faults
            .iter()
            .any(|fault| fault.kind == FaultKind::Restart && fault.at.0 == t)
        {
            self.exporter = Exporter::new(&self.runs, self.limits, self.presets, t);
        }
        self.exporter.state.tick(self.clock(t));
        for index in 0..self.runs.len() {
            self.hear(index, t);
        }
        for index in 0..self.runs.len() {
            self.count_files(index, t);
        }
        let now = self.clock(t);
        if t % LOOK == 0.0 {
            self.see_processes(t, now);
        }
        if self.spec.gpus.is_some() {
            let read = if self.fault(FaultKind::NvmlBlind, t) {
                Err("the driver does not answer".to_owned())
            } else {
                Ok(gpus(self.spec, &self.runs, t).unwrap_or_default())
            };
            self.exporter.state.record_source(
                "nvml",
                read.as_ref().map(|_| ()).map_err(Clone::clone),
                0.0,
                now,
            );
            self.exporter.state.record_gpus(read, now);
        }
    }

    /// The log's bytes.
    fn hear(&mut self, index: usize, t: f64) {
        let played = &self.runs[index];
        let readable = !self.fault(FaultKind::LogUnreadable, t);
        let (now, born) = (self.clock(t), self.clock(self.exporter.born));
        let exporter = &mut self.exporter;
        let Some(run) = exporter.state.runs.get_mut(&played.spec.run) else {
            return;
        };
        let feed = &mut exporter.feeds[index];
        run.log.up = readable && !played.spec.log.is_empty();
        if !run.log.up {
            run.job.blinded();
            return;
        }
        let mut said = Vec::new();
        let (lines, reader) = (&mut feed.lines, &mut feed.reader);
        let (mut newest, mut gained) = (None, 0);
        let log = &mut run.log;
        let mut read = |line: Line<'_>| {
            let before = said.len();
            reader.read(&line, &mut |observation| said.push(observation));
            log.lines += 1;
            log.matched += u64::from(said.len() > before);
        };
        for (at, bytes) in played.gained(feed.read_until, t) {
            newest = Some(at);
            gained += bytes.len() as u64;
            lines.push(bytes, &mut read);
        }
        feed.last_append = newest.or(feed.last_append);
        feed.read_until = t;
        if lines.unfinished() && feed.last_append.is_some_and(|at| t - at >= REST) {
            lines.rest(&mut read);
        }
        run.log.bytes += gained;
        if gained > 0 {
            run.log.blocks.grew(gained, now);
        }
        let skew = now - t;
        // What was there before the exporter began came at the latest when the file was last written.
        run.alive |= newest.is_some() && now > born;
        let came_at = if now == born {
            feed.last_append.map_or(now, |at| at + skew)
        } else {
            now
        };
        said.into_iter()
            .for_each(|said| run.job.apply(said, came_at));
        if let Some(framework) = reader.framework() {
            framework.clone_into(&mut run.info.framework);
        }
        run.log.last_write = feed.last_append.map(|at| at + skew);
    }

    fn see_processes(&mut self, t: f64, now: Unix) {
        let unseen = self.fault(FaultKind::ProcessesUnseen, t);
        for (played, feed) in self.runs.iter().zip(&mut self.exporter.feeds) {
            match played.processes(t).filter(|_| !unseen) {
                Some(seen) => {
                    let found = feed.watcher.look(now, seen);
                    self.exporter
                        .state
                        .record_processes(&played.spec.run, found, now);
                }
                None => {
                    if let Some(run) = self.exporter.state.runs.get_mut(&played.spec.run) {
                        run.processes = None;
                    }
                }
            }
        }
    }

    /// The validation files that were opened since the step before.
    fn count_files(&mut self, index: usize, t: f64) {
        let played = &self.runs[index];
        let Some(opened) = played.opened(t) else {
            return;
        };
        let now = self.clock(t);
        let born = self.clock(self.exporter.born);
        let exporter = &mut self.exporter;
        let feed = &mut exporter.feeds[index];
        let Some(run) = exporter.state.runs.get_mut(&played.spec.run) else {
            return;
        };
        let files: Vec<(PathBuf, Unix)> = (feed.files..opened)
            .map(|n| (PathBuf::from(format!("sample_{n}")), now))
            .collect();
        feed.files = opened;
        let files = files.iter().map(|(path, at)| (path, at));
        if run.job.phase != Phase::Validation {
            feed.opened.outside(files, now);
            return;
        }
        feed.opened
            .inside(files, run.job.phase_since, run.log.last_write);
        feed.opened.seen_since(born);
        run.job.opened_files(Some(feed.opened.files()), now);
        run.alive |= feed.opened.files().opened > 0;
        run.files_opened = Some(feed.opened.total());
    }

    fn scrape(&mut self, t: f64) -> Scrape {
        let now = self.clock(t);
        let page = TextEncoder::new().encode_to_string(&self.exporter.state.families(now));
        let gpus = self.exporter.state.gpus.data.clone().unwrap_or_default();
        let think = |run: &Run| {
            let job = &run.job;
            let last = larger(
                job.last_progress(),
                larger(job.last_work(), job.last_gpu_work()),
            );
            Thought {
                facts: run.facts(&gpus, now),
                nodes: run.info.nodes,
                learned: job.learned(),
                still: last.map(|last| now - last),
            }
        };
        let runs = self
            .exporter
            .state
            .runs
            .values()
            .map(|run| (run.name.clone(), think(run)));
        Scrape {
            at: t,
            node: self.spec.name.clone(),
            runs: runs.collect(),
            target: !self.fault(FaultKind::TargetGone, t),
            page: page.ok().filter(|_| {
                !self.fault(FaultKind::ScrapesFail, t) && !self.fault(FaultKind::TargetGone, t)
            }),
        }
    }
}
