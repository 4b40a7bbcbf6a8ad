//! The thread that follows logs and counts opened validation files.
//!
//! Log byte to metric is four calls in this one thread: `Follower::poll`, `Lines::push`, `Reader::read`, `Job::apply`.
//! Events only say where to look sooner; everything is looked at every second anyway, so nothing rests on them.

mod adopt;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use self::adopt::Adoption;
use super::followed::Log;
use super::watch::{Happened, Watch};
use super::{Pace, Wake, now, wait};
use crate::config::Config;
use crate::job::Unix;
use crate::state::{Shared, State};

/// After an event, so long is waited for more of them.
const COALESCE: Duration = Duration::from_millis(10);

struct Files<'a> {
    config: &'a Config,
    shared: &'a Shared,
    host: String,
    watch: Watch,
    logs: BTreeMap<PathBuf, Log>,
    /// Device and inode of each watched folder.
    folders: HashMap<PathBuf, (u64, u64)>,
    /// Where each configured data folder really is; those that are not there are not here.
    data: HashMap<PathBuf, PathBuf>,
    adoption: Adoption,
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
    shared.lock().exporter.host.clone_from(&host);
    let mut files = Files {
        config,
        shared,
        host,
        watch,
        logs: BTreeMap::new(),
        folders: HashMap::new(),
        data: HashMap::new(),
        adoption: Adoption::default(),
    };
    let mut next_look = now();
    loop {
        let began = now();
        // Before anything is taken in: time in which this thread could not look teaches nothing.
        shared.lock().tick(began);
        let mut happened = files.watch.happened();
        // A clock that was set back must not stop the search until it has caught up.
        if began >= next_look || next_look - began > pace.files.as_secs_f64() {
            files.search(began);
            happened.everything = true;
            next_look = began + pace.files.as_secs_f64();
        }
        let more = files.look(&happened, pace);
        files.count(&happened);
        if happened.everything {
            let at = now();
            files.report(&mut shared.lock(), at - began, at);
        }
        let unrested = files.logs.values().any(|log| log.unrested.is_some());
        let pause = Duration::from_secs_f64((next_look - now()).max(0.0));
        let pause = match (more, unrested) {
            (true, _) => Duration::ZERO,
            (false, true) => pause.min(pace.rest),
            (false, false) => pause,
        };
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
        self.adopt(now);
        self.retire(now);
        self.rewatch();
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

    /// Reads what the logs gained, one turn of each. True if there is more.
    fn look(&mut self, happened: &Happened, pace: Pace) -> bool {
        let mut more = false;
        for (path, log) in &mut self.logs {
            let changed = |path: &Path| {
                path.parent()
                    .is_some_and(|folder| happened.changed.contains(folder))
            };
            let touched = happened.everything
                || log.more
                || changed(path)
                || (!happened.changed.is_empty()
                    && fs::canonicalize(path).is_ok_and(|real| changed(&real)));
            if touched {
                log.read(self.shared);
            }
            log.rest(pace.rest.as_secs_f64(), self.shared);
            more |= log.more;
        }
        more
    }

    /// Counts the validation files that were opened.
    fn count(&mut self, happened: &Happened) {
        let at = now();
        let mut state = self.shared.lock();
        let mut owners: HashMap<&Path, BTreeSet<&str>> = HashMap::new();
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
            let opened = happened.opened.iter();
            let opened = opened.filter(|(path, _)| path.parent() == Some(folder));
            if let Some(since) = self.watch.sees_since(folder) {
                state.record_opened(&runs, opened, since, at);
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
