//! The product's own code in virtual time: bytes and facts in, one metric page for each scrape out.
//!
//! It calls what the source threads call (`state::take`) at the same pace: logs, GPUs and files each second, processes
//! each 5 s. Nothing is computed here that the exporter would not compute.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use prometheus::TextEncoder;

use super::spec::{Fault, FaultKind, Node, Scenario};
use super::world::{Append, FIRST_PID, Library, Played, gpus};
use crate::job::Unix;
use crate::job::cadence::Limits;
use crate::job::clock::larger;
use crate::job::verdict::Facts;
use crate::log::listener::Listener;
use crate::log::reader::Presets;
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
    /// What it knows of each run beside the state; absent for a log that is let be.
    feeds: Vec<Option<Feed>>,
    /// Since when it runs.
    born: f64,
}

/// What it knows of one run beside the state.
struct Feed {
    listener: Listener,
    /// When it was taken up, by the node's clock.
    since: Unix,
    /// What the log gained up to here is read, in virtual seconds.
    read_until: f64,
    last_append: Option<f64>,
    watcher: Watcher,
    /// Files opened before, over all passes.
    files: u64,
}

/// A folder of validation files.
#[derive(Default)]
struct Folder<'a> {
    /// Whose it is.
    runs: BTreeSet<&'a str>,
    /// What was opened in it just now.
    files: Vec<(PathBuf, Unix)>,
}

/// Plays a scenario and returns what each scrape gave, in order.
pub fn simulate(
    scenario: &Scenario,
    library: &dyn Library,
    presets: &Presets,
) -> Result<Vec<Scrape>, String> {
    let mut sites = Vec::new();
    for spec in &scenario.nodes {
        let mut runs = Vec::new();
        for (run, pid) in spec.runs.iter().zip(FIRST_PID..) {
            runs.push(Played::new(run, pid, spec, scenario.duration.0, library)?);
        }
        let mut site = Site {
            spec,
            runs,
            presets,
            limits: &scenario.limits,
            exporter: Exporter::new(0, 0.0),
        };
        site.start(0.0);
        sites.push(site);
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
    fn new(runs: usize, born: f64) -> Self {
        let mut state = State::default();
        state.exporter.ready = true;
        Self {
            state,
            feeds: (0..runs).map(|_| None).collect(),
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

    /// The exporter does nothing: it is stopped, or the whole machine sleeps.
    fn rests(&self, t: f64) -> bool {
        self.fault(FaultKind::Suspend, t) || self.fault(FaultKind::ExporterPaused, t)
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

    /// An exporter begins, with nothing in memory.
    fn start(&mut self, t: f64) {
        self.exporter = Exporter::new(self.runs.len(), t);
        for index in 0..self.runs.len() {
            self.adopt(index, t);
        }
    }

    /// A log is taken up: it makes a run.
    fn adopt(&mut self, index: usize, t: f64) {
        let played = &self.runs[index].spec;
        let mut run = Run::new(&played.run, self.limits.clone());
        run.info.user.clone_from(&played.user);
        run.info.team.clone_from(&played.team);
        run.info.nodes = played.nodes;
        run.info.alerting = played.alerting;
        run.info.log_path = format!("/runs/{}/train.log", played.run);
        run.job.files_planned = played.val_files;
        self.exporter.state.runs.insert(run.name.clone(), run);
        let preset = played.preset.as_deref();
        let preset = preset.and_then(|name| self.presets.named(name));
        self.exporter.feeds[index] = Some(Feed {
            listener: Listener::new(self.presets.reader(preset)),
            since: self.clock(t),
            read_until: f64::NEG_INFINITY,
            last_append: None,
            watcher: Watcher::new(self.limits.work_window, 1.0),
            files: 0,
        });
    }

    fn step(&mut self, t: f64) {
        let begins = |fault: &&Fault| fault.kind == FaultKind::Restart && fault.at.0 == t;
        if self.spec.faults.iter().any(|fault| begins(&fault)) {
            self.start(t);
        }
        if self.rests(t) {
            return;
        }
        let now = self.clock(t);
        self.exporter.state.tick(now);
        for index in 0..self.runs.len() {
            self.hear(index, t);
        }
        self.count_files(t);
        if t % LOOK == 0.0 {
            self.see_processes(t, now);
        }
        if self.spec.gpus.is_some() {
            let read = if self.fault(FaultKind::NvmlBlind, t) {
                Err("the driver does not answer".to_owned())
            } else {
                let clock = |t| self.clock(t);
                Ok(gpus(self.spec, &self.runs, self.exporter.born, t, clock).unwrap_or_default())
            };
            self.exporter.state.see_gpus(read, now, 0.0, now);
        }
    }

    /// What the log gained; or whether it is to be taken up, or let be.
    fn hear(&mut self, index: usize, t: f64) {
        let (now, born) = (self.clock(t), self.clock(self.exporter.born));
        let skew = now - t;
        let written = self.runs[index].written(t);
        if self.exporter.feeds[index].is_none() {
            if written.is_none_or(|at| t - at > 1.0) {
                return;
            }
            self.adopt(index, t);
        }
        let readable = !self.fault(FaultKind::LogUnreadable, t);
        let played = &self.runs[index];
        let name = &played.spec.run;
        let Exporter { state, feeds, .. } = &mut self.exporter;
        let (Some(run), Some(feed)) = (state.runs.get_mut(name), &mut feeds[index]) else {
            return;
        };
        run.log.up = readable && !played.spec.log.is_empty();
        if !run.log.up {
            run.blinded();
            return;
        }
        let mut newest = None;
        for (at, gained) in played.gained(feed.read_until, t) {
            newest = Some(at);
            match gained {
                Append::Bytes(bytes) => feed.listener.push(bytes),
                Append::Rotated => feed.listener.rotated(),
            }
        }
        feed.last_append = newest.or(feed.last_append);
        feed.read_until = t;
        if feed.listener.unfinished() && feed.last_append.is_some_and(|at| t - at >= REST) {
            feed.listener.rest();
        }
        // What was there before the exporter began came at the latest when the file was last written.
        let news = now > born;
        let came_at = feed
            .last_append
            .filter(|_| !news)
            .map_or(now, |at| at + skew);
        run.heard(
            feed.listener.take(),
            feed.listener.framework(),
            came_at,
            news,
        );
        run.log.last_write = feed.last_append.map(|at| at + skew);
        if run.past(run.log.last_write, Some(feed.since), now) {
            state.runs.remove(name);
            feeds[index] = None;
        }
    }

    fn see_processes(&mut self, t: f64, now: Unix) {
        let unseen = self.fault(FaultKind::ProcessesUnseen, t);
        let Exporter { state, feeds, .. } = &mut self.exporter;
        for (played, feed) in self.runs.iter().zip(feeds) {
            if let Some(feed) = feed {
                let seen = played.processes(t).filter(|_| !unseen);
                state.look(&played.spec.run, seen, &mut feed.watcher, now);
            }
        }
    }

    /// The validation files that were opened since the step before, folder by folder.
    fn count_files(&mut self, t: f64) {
        let (now, born) = (self.clock(t), self.clock(self.exporter.born));
        let mut folders: BTreeMap<&str, Folder<'_>> = BTreeMap::new();
        for (played, feed) in self.runs.iter().zip(&mut self.exporter.feeds) {
            let (Some(opened), Some(feed)) = (played.opened(t), feed) else {
                continue;
            };
            let name = played.spec.run.as_str();
            let folder = played.spec.data_folder.as_deref().unwrap_or(name);
            let folder = folders.entry(folder).or_default();
            folder.runs.insert(name);
            let new = (feed.files..opened).map(|n| (PathBuf::from(format!("{name}_{n}")), now));
            folder.files.extend(new);
            feed.files = opened;
        }
        for Folder { runs, files } in folders.values() {
            let files = files.iter().map(|(path, at)| (path, at));
            self.exporter.state.record_opened(runs, files, born, now);
        }
    }

    fn scrape(&mut self, t: f64) -> Scrape {
        let now = self.clock(t);
        let missed = [FaultKind::ScrapesFail, FaultKind::TargetGone];
        let answers = !self.rests(t) && !missed.into_iter().any(|kind| self.fault(kind, t));
        let families = answers.then(|| self.exporter.state.families(now));
        let page = families.map(|families| TextEncoder::new().encode_to_string(&families));
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
        let runs = self.exporter.state.runs.values();
        Scrape {
            at: t,
            node: self.spec.name.clone(),
            runs: runs.map(|run| (run.name.clone(), think(run))).collect(),
            target: !self.fault(FaultKind::TargetGone, t),
            page: page.and_then(Result::ok),
        }
    }
}
