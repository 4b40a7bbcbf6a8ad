//! The thread that follows logs and counts opened validation files.
//!
//! Log byte to metric is four calls in this one thread: `Follower::poll`, `Lines::push`, `Reader::read`, `Job::apply`.
//! Events only say where to look sooner; everything is looked at every second anyway, so nothing rests on them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use super::watch::{Happened, Watch};
use super::{Pace, Wake, now, wait};
use crate::config::{Config, LogSource};
use crate::job::observation::Observation;
use crate::job::{Phase, Unix};
use crate::log::follow::{Follower, Gained};
use crate::log::lines::{Line, Lines};
use crate::log::reader::Reader;
use crate::node::data::Opened;
use crate::state::{Run, Shared, State};

/// After an event, so long is waited for more of them.
const COALESCE: Duration = Duration::from_millis(10);

/// One log that is followed.
struct Log {
    source: usize,
    run: String,
    follower: Follower,
    lines: Lines,
    reader: Reader,
    /// All that was in the file when it was first looked at is read: what comes now came now.
    caught_up: bool,
    /// When bytes last came, while the last line has not been judged.
    unrested: Option<Unix>,
    counts: Counts,
}

/// What a look adds to the counters of a log.
#[derive(Default)]
struct Counts {
    bytes: u64,
    lines: u64,
    matched: u64,
    rotations: u64,
}

/// The files that one run has opened.
#[derive(Default)]
struct Pass {
    opened: Opened,
    /// The validation that is counted, by its beginning.
    began: Option<Unix>,
    /// Files opened outside a validation, a moment ago: the log's word that one begins is read a little later.
    recent: Vec<(PathBuf, Unix)>,
}

struct Files<'a> {
    config: &'a Config,
    shared: &'a Shared,
    host: String,
    watch: Watch,
    logs: BTreeMap<PathBuf, Log>,
    passes: HashMap<String, Pass>,
    /// Device and inode of each watched folder.
    folders: HashMap<PathBuf, (u64, u64)>,
    /// Where each configured data folder really is; those that are not there are not here.
    data: HashMap<PathBuf, PathBuf>,
    /// Logs that found no room.
    dropped: HashSet<PathBuf>,
}

/// Follows the logs until the program ends.
pub(super) fn run(
    config: &Config,
    pace: Pace,
    shared: &Shared,
    wakes: &Receiver<Wake>,
    waker: &SyncSender<Wake>,
) {
    let (watch, error) = Watch::new(waker.clone());
    if let Some(e) = error {
        tracing::warn!(error = %e, "no inotify instance: looking every second; opened validation files cannot be seen");
        shared.lock().exporter.watch_errors += 1;
    }
    let host = fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| String::new(), |h| h.trim().to_owned());
    let mut files = Files {
        config,
        shared,
        host,
        watch,
        logs: BTreeMap::new(),
        passes: HashMap::new(),
        folders: HashMap::new(),
        data: HashMap::new(),
        dropped: HashSet::new(),
    };
    let mut next_look = now();
    loop {
        let began = now();
        let mut happened = files.watch.happened();
        if began >= next_look {
            files.search(began);
            happened.everything = true;
            next_look = began + pace.files.as_secs_f64();
        }
        files.look(&happened, pace);
        files.count(&happened);
        let at = now();
        let mut state = shared.lock();
        state.runs.values_mut().for_each(|run| {
            let suspended = run.processes.as_ref().is_some_and(|p| p.suspended());
            run.job.tick(at, suspended);
        });
        if happened.everything {
            files.report(&mut state, at - began, at);
        }
        drop(state);
        let pause = (next_look - now()).max(0.0);
        let unrested = files.logs.values().any(|log| log.unrested.is_some());
        let pause =
            Duration::from_secs_f64(pause).min(if unrested { pace.rest } else { pace.files });
        let waited_from = now();
        if !wait(wakes, pause) {
            return;
        }
        if now() - waited_from < pause.as_secs_f64() {
            thread::sleep(COALESCE);
        }
    }
}

impl Files<'_> {
    /// Finds new logs, lets go of old ones, and watches the folders of those that are left.
    fn search(&mut self, now: Unix) {
        for (index, source) in self.config.logs.iter().enumerate() {
            for path in matches(&source.path) {
                if !self.logs.contains_key(&path) {
                    self.adopt(index, source, path, now);
                }
            }
        }
        self.retire(now);
        self.rewatch();
    }

    fn adopt(&mut self, index: usize, source: &LogSource, path: PathBuf, now: Unix) {
        // Logs of runs long past are no runs: a pattern may match hundreds of them.
        let written = fs::metadata(&path)
            .ok()
            .and_then(|there| there.modified().ok());
        let age = written.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        if age.is_some_and(|at| now - at.as_secs_f64() > self.config.limits.retention) {
            return;
        }
        let name = source
            .run
            .clone()
            .unwrap_or_else(|| run_name(&source.path, &path, &self.host));
        let preset = source
            .preset
            .as_deref()
            .and_then(|name| self.config.presets.named(name));
        let mut state = self.shared.lock();
        if !state.runs.contains_key(&name) {
            if state.runs.len() >= self.config.run_max {
                if self.dropped.insert(path.clone()) {
                    state.exporter.runs_dropped += 1;
                    tracing::warn!(log = %path.display(), limit = self.config.run_max, "too many runs: not followed");
                }
                return;
            }
            let mut run = Run::new(&name, self.config.limits.clone());
            run.info.log_path = path.display().to_string();
            run.info.user.clone_from(&source.user);
            run.info.team.clone_from(&source.team);
            run.job.files_planned = source.val_files;
            state.runs.insert(name.clone(), run);
        }
        drop(state);
        tracing::info!(log = %path.display(), run = %name, "following");
        let log = Log {
            source: index,
            run: name,
            follower: Follower::new(&path),
            lines: Lines::default(),
            reader: self.config.presets.reader(preset),
            caught_up: false,
            unrested: None,
            counts: Counts::default(),
        };
        self.logs.insert(path, log);
    }

    /// A run that is over, or whose log never was one, is kept for a while after its last byte.
    fn retire(&mut self, now: Unix) {
        let mut state = self.shared.lock();
        let old: Vec<PathBuf> = self
            .logs
            .iter()
            .filter(|(_, log)| {
                let Some(run) = state.runs.get(&log.run) else {
                    return true;
                };
                let lives = run
                    .processes
                    .as_ref()
                    .is_some_and(|p| p.seen.counters.processes > 0);
                let age = log.follower.modified().map_or(0.0, |at| now - at);
                !lives && !run.job.phase.live() && age > self.config.limits.retention
            })
            .map(|(path, _)| path.clone())
            .collect();
        for path in old {
            let Some(log) = self.logs.remove(&path) else {
                continue;
            };
            if !self.logs.values().any(|other| other.run == log.run) {
                state.runs.remove(&log.run);
                self.passes.remove(&log.run);
            }
        }
    }

    fn rewatch(&mut self) {
        let mut logs = HashSet::new();
        for path in self.logs.keys() {
            logs.extend(path.parent().map(Path::to_owned));
            // A link's target changes without an event in the link's folder.
            logs.extend(
                fs::canonicalize(path)
                    .ok()
                    .and_then(|target| target.parent().map(Path::to_owned)),
            );
        }
        // Files that are links are opened where they lead to, which the folder's own watch does not see.
        self.data.clear();
        for log in self.logs.values() {
            let run = self
                .shared
                .lock()
                .runs
                .get(&log.run)
                .map(|run| run.job.phase);
            if run.is_some_and(|phase| !phase.over()) {
                for folder in &self.config.logs[log.source].val_data {
                    let real = fs::canonicalize(folder).ok().filter(|real| real.is_dir());
                    self.data.extend(real.map(|real| (folder.clone(), real)));
                }
            }
        }
        let data: HashSet<PathBuf> = self.data.values().cloned().collect();
        // A folder that was deleted and made again needs a new watch, and no event tells of it.
        for folder in logs.union(&data) {
            let Ok(there) = fs::metadata(folder) else {
                self.watch.forget(folder);
                self.folders.remove(folder);
                continue;
            };
            let identity = (there.dev(), there.ino());
            if self
                .folders
                .insert(folder.clone(), identity)
                .is_some_and(|old| old != identity)
            {
                self.watch.forget(folder);
            }
        }
        let there = |folders: HashSet<PathBuf>| {
            folders
                .into_iter()
                .filter(|f| self.folders.contains_key(f))
                .collect()
        };
        let (logs, data): (HashSet<PathBuf>, HashSet<PathBuf>) = (there(logs), there(data));
        for e in self.watch.keep(&logs, &data) {
            tracing::warn!(error = %e, "a folder cannot be watched: looking every second");
            self.shared.lock().exporter.watch_errors += 1;
        }
    }

    /// Reads what the logs gained.
    fn look(&mut self, happened: &Happened, pace: Pace) {
        for (path, log) in &mut self.logs {
            let touched = happened.everything
                || path
                    .parent()
                    .is_some_and(|folder| happened.changed.contains(folder))
                || fs::canonicalize(path)
                    .is_ok_and(|p| p.parent().is_some_and(|f| happened.changed.contains(f)));
            if touched {
                log.read(self.shared);
            }
            log.rest(pace.rest.as_secs_f64(), self.shared);
        }
    }

    /// Counts the validation files that were opened.
    fn count(&mut self, happened: &Happened) {
        let at = now();
        let mut state = self.shared.lock();
        let mut owners: HashMap<&Path, HashSet<&str>> = HashMap::new();
        for log in self.logs.values() {
            if state
                .runs
                .get(&log.run)
                .is_some_and(|run| run.job.phase.live())
            {
                for folder in &self.config.logs[log.source].val_data {
                    if let Some(real) = self.data.get(folder) {
                        owners.entry(real).or_default().insert(&log.run);
                    }
                }
            }
        }
        for (folder, runs) in owners {
            let opened = happened
                .opened
                .iter()
                .filter(|(path, _)| path.parent() == Some(folder));
            let validates = |name: &str| state.runs[name].job.phase == Phase::Validation;
            // Two runs that validate on one folder cannot be told apart: nothing is said of either.
            let alone = runs.iter().filter(|name| validates(name)).count() == 1;
            for name in runs {
                let pass = self.passes.entry(name.to_owned()).or_default();
                let run = state.runs.get_mut(name).filter(|_| self.watch.sees(folder));
                let Some(run) = run else { continue };
                if run.job.phase != Phase::Validation {
                    pass.remember(opened.clone(), at);
                } else if alone {
                    pass.count(opened.clone(), run);
                    run.job.opened_files(pass.opened.count(), at);
                    run.files_opened = Some(pass.opened.total());
                }
            }
        }
    }

    /// Tells how the sources do.
    fn report(&self, state: &mut State, duration: f64, now: Unix) {
        let failed = state.runs.values().find_map(|run| run.log.error.clone());
        state.record_source("log", failed.map_or(Ok(()), Err), duration, now);
        let folders: Vec<&PathBuf> = self
            .config
            .logs
            .iter()
            .flat_map(|source| &source.val_data)
            .collect();
        if !folders.is_empty() {
            let absent = folders.iter().find(|folder| !folder.is_dir());
            let result = absent.map_or(Ok(()), |folder| {
                Err(format!("{}: no such folder", folder.display()))
            });
            state.record_source("data", result, duration, now);
        }
        state.exporter.ready = true;
    }
}

/// So long a file that was opened outside a validation is remembered, in seconds, and so many.
const RECENT: f64 = 5.0;
const RECENT_FILES: usize = 10_000;

impl Pass {
    /// Takes in files that were opened outside a validation.
    fn remember<'a>(&mut self, opened: impl Iterator<Item = (&'a PathBuf, &'a Unix)>, now: Unix) {
        self.recent.retain(|(_, at)| now - at < RECENT);
        let room = RECENT_FILES.saturating_sub(self.recent.len());
        self.recent
            .extend(opened.take(room).map(|(path, at)| (path.clone(), *at)));
    }

    /// Takes in files that were opened while `run` validates.
    fn count<'a>(&mut self, opened: impl Iterator<Item = (&'a PathBuf, &'a Unix)>, run: &Run) {
        if self.began != run.job.phase_since {
            self.began = run.job.phase_since;
            self.opened.begin();
            // The word that a validation begins is the log's newest: what was opened after it
            // was written belongs to the pass.
            let written = run.log.last_write.unwrap_or(Unix::INFINITY);
            for (path, at) in self.recent.drain(..) {
                if at >= written {
                    self.opened.open(&path);
                }
            }
        }
        opened.for_each(|(path, _)| {
            self.opened.open(path);
        });
    }
}

impl Log {
    /// Reads all that the log gained.
    fn read(&mut self, shared: &Shared) {
        let mut said = Vec::new();
        loop {
            let (lines, reader, counts) = (&mut self.lines, &mut self.reader, &mut self.counts);
            let mut came = false;
            let result = self.follower.poll(&mut |gained| match gained {
                Gained::Bytes(bytes) => {
                    came = true;
                    counts.bytes += bytes.len() as u64;
                    lines.push(bytes, &mut |line| {
                        read_line(reader, &line, counts, &mut said)
                    });
                }
                Gained::Rotated | Gained::Truncated => {
                    counts.rotations += 1;
                    // What stands unfinished will not be finished.
                    lines.rest(&mut |line| read_line(reader, &line, counts, &mut said));
                    lines.begin();
                }
            });
            let at = now();
            // What was in the file before we looked came at the latest when it was last written.
            let came_at = if self.caught_up {
                at
            } else {
                self.follower
                    .modified()
                    .map_or(at, |written| written.min(at))
            };
            if came {
                self.unrested = self.lines.unfinished().then_some(at);
            }
            self.tell(shared, &mut said, came_at, result.as_ref().err());
            match result {
                Ok(true) => {}
                Ok(false) => {
                    self.caught_up = true;
                    return;
                }
                Err(_) => return,
            }
        }
    }

    /// Judges the unfinished last line once it rests.
    fn rest(&mut self, patience: f64, shared: &Shared) {
        if self.unrested.is_none_or(|since| now() - since < patience) {
            return;
        }
        let since = self.unrested.take();
        let mut said = Vec::new();
        let (reader, counts) = (&mut self.reader, &mut self.counts);
        self.lines
            .rest(&mut |line| read_line(reader, &line, counts, &mut said));
        let at = self
            .follower
            .modified()
            .filter(|_| !self.caught_up)
            .or(since)
            .unwrap_or_else(now);
        self.tell(shared, &mut said, at, None);
    }

    /// Takes what was said into the state, under one lock.
    fn tell(
        &mut self,
        shared: &Shared,
        said: &mut Vec<Observation>,
        at: Unix,
        error: Option<&io::Error>,
    ) {
        let mut state = shared.lock();
        let Some(run) = state.runs.get_mut(&self.run) else {
            return;
        };
        said.drain(..).for_each(|said| run.job.apply(said, at));
        if let Some(framework) = self.reader.framework() {
            framework.clone_into(&mut run.info.framework);
        }
        let counts = std::mem::take(&mut self.counts);
        run.log.bytes += counts.bytes;
        run.log.lines += counts.lines;
        run.log.matched += counts.matched;
        run.log.rotations += counts.rotations;
        run.log.lag = self.follower.lag();
        run.log.last_write = self.follower.modified();
        run.log.up = error.is_none() && self.follower.is_open();
        run.log.error = error.map(|e| format!("{}: {e}", self.follower.path().display()));
    }
}

fn read_line(
    reader: &mut Reader,
    line: &Line<'_>,
    counts: &mut Counts,
    said: &mut Vec<Observation>,
) {
    let before = said.len();
    reader.read(line, &mut |observation| said.push(observation));
    counts.lines += 1;
    counts.matched += u64::from(said.len() > before);
}

/// The paths that a pattern names now. A plain path is named even before its file is there.
fn matches(pattern: &str) -> Vec<PathBuf> {
    let whole = std::path::absolute(pattern).unwrap_or_else(|_| PathBuf::from(pattern));
    if !pattern.contains(['*', '?', '[']) {
        return vec![whole];
    }
    let found = glob::glob(&whole.to_string_lossy())
        .into_iter()
        .flatten()
        .flatten();
    let mut paths: Vec<PathBuf> = found.filter(|path| path.is_file()).collect();
    paths.sort();
    paths
}

/// The derived name of a run: the log's stem and the host, with the folder's name where the pattern spans folders.
fn run_name(pattern: &str, path: &Path, host: &str) -> String {
    let text =
        |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let stem = text(path.file_stem());
    let folders = pattern.rsplit_once('/').map_or("", |(folders, _)| folders);
    if folders.contains(['*', '?', '[']) {
        format!(
            "{}/{stem}@{host}",
            text(path.parent().and_then(Path::file_name))
        )
    } else {
        format!("{stem}@{host}")
    }
}
