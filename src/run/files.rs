//! The thread that follows logs and counts opened validation files.
//!
//! Log byte to metric is four calls in one thread: `Follower::poll`, `Lines::push`, `Reader::read`, `Job::apply`. That
//! thread is the lane of the log's file system (`run/lanes.rs`): this one asks and goes on, so that a file system that
//! never answers blinds the runs whose logs it has, and no others. A log on its way has no other question.
//!
//! Events only say where to look sooner; everything is looked at every second anyway, so nothing rests on them. Where
//! they tell only half (a far file system), nobody listens to them.

mod adopt;
mod folders;
mod names;
mod renew;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use self::adopt::{Adoption, Search};
use self::folders::Folder;
use super::followed::Log;
use super::lanes::Lanes;
use super::mounts::{Mount, Mounts};
use super::watch::{Happened, Watch};
use super::{InForce, Pace, Wake, now, wait};
use crate::config::Config;
use crate::job::Unix;
use crate::state::{STALL, Shared, State};

/// Looks that events ask for are so far apart: the first is at once, before a log may be cut, and many make one.
const APART: Duration = Duration::from_millis(10);
/// The first look is not waited for any longer, in seconds.
const PATIENCE: f64 = 1.0;
/// The mounts are read again after so many seconds.
const MOUNTS: f64 = 10.0;

struct Files<'a> {
    config: Arc<Config>,
    shared: &'a Shared,
    host: String,
    watch: Watch,
    lanes: Lanes<Answer>,
    mounts: Mounts,
    mounts_read: Unix,
    logs: BTreeMap<PathBuf, Followed>,
    /// What each configured source names.
    searches: Vec<Search>,
    /// Device and inode of each watched folder.
    folders: HashMap<PathBuf, (u64, u64)>,
    /// The configured data folders that are wanted.
    data: HashMap<PathBuf, folders::Data>,
    adoption: Adoption,
}

/// A log that is followed, at home or on its way.
struct Followed {
    /// Which of the configured sources it is of.
    source: usize,
    run: String,
    mount: Mount,
    /// At home; absent while its file system is asked.
    log: Option<Box<Log>>,
    /// Since when its file system is asked.
    asked: Option<Unix>,
    /// How long the newest answer took, in seconds; absent before the first.
    took: Option<f64>,
    /// It is to be read.
    due: bool,
    /// A log on its way says nothing once this is dropped.
    _hold: Arc<()>,
    /// When its file was last written.
    modified: Option<Unix>,
    /// Where its changes are told.
    folders: Vec<Folder>,
}

/// What a file system answers.
enum Answer {
    /// What a configured source names.
    Found(String, adopt::Found),
    /// Where a configured data folder really is.
    Data(PathBuf, Option<Folder>),
    /// A log that was read; nothing if that went wrong.
    Read(PathBuf, Option<Box<Log>>, Vec<Folder>),
}

/// Follows the logs until the program ends.
pub(super) fn run(
    in_force: &InForce,
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
    let config = in_force.get();
    let mut files = Files {
        shared,
        host,
        watch,
        lanes: Lanes::new(waker.clone()),
        mounts: Mounts::default(),
        mounts_read: f64::NEG_INFINITY,
        logs: BTreeMap::new(),
        searches: config.logs.iter().map(|_| Search::default()).collect(),
        config,
        folders: HashMap::new(),
        data: HashMap::new(),
        adoption: Adoption::default(),
    };
    let mut next_look = now();
    loop {
        let began = now();
        if files.renew(in_force.get()) {
            next_look = began;
        }
        files.answers(began);
        // Before anything is taken in: time in which a log could not be looked at teaches nothing.
        files.tick(began);
        let mut happened = files.watch.happened();
        shared.lock().exporter.watch_errors += happened.lost;
        // A clock that was set back must not stop the search until it has caught up.
        if began >= next_look || next_look - began > pace.files.as_secs_f64() {
            files.search(began);
            happened.everything = true;
            next_look = began + pace.files.as_secs_f64();
        }
        files.look(&happened, pace);
        files.count(&happened);
        files.report(&mut shared.lock(), now());
        let pause = Duration::from_secs_f64((next_look - now()).max(0.0));
        let unrested = files.logs.values().any(Followed::unrested);
        let pause = if unrested {
            pause.min(pace.rest)
        } else {
            pause
        };
        let waited_from = now();
        if !wait(wakes, pause) {
            return;
        }
        let hurries = |log: &Followed| log.due || log.took.is_none();
        if now() - waited_from < pause.as_secs_f64() && !files.logs.values().any(hurries) {
            let since = (now() - began).max(0.0);
            thread::sleep(APART.saturating_sub(Duration::from_secs_f64(since)));
        }
    }
}

impl Followed {
    fn unrested(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.unrested.is_some())
    }

    /// It has been asked for longer.
    fn late(&self, seconds: f64, now: Unix) -> bool {
        self.asked.is_some_and(|since| now - since > seconds)
    }
}

impl Files<'_> {
    /// Takes in what file systems answered.
    fn answers(&mut self, now: Unix) {
        let (mut found, mut moved) = (false, false);
        for answer in self.lanes.answers() {
            match answer {
                Answer::Found(source, names) => {
                    let mut searches = self.searches.iter_mut().zip(&self.config.logs);
                    let asked =
                        searches.find(|(search, of)| of.path == source && search.is_asked());
                    // One that was let go meanwhile is dropped.
                    if let Some((search, of)) = asked {
                        search.answered(names, &of.path);
                        found = true;
                    }
                }
                Answer::Data(folder, real) => {
                    if let Some(data) = self.data.get_mut(&folder) {
                        moved |= data.answered(real);
                    }
                }
                Answer::Read(path, None, _) => {
                    self.logs.remove(&path);
                }
                Answer::Read(path, Some(log), folders) => {
                    // One that was let go meanwhile, and perhaps taken up anew, is dropped.
                    let known = self.logs.get_mut(&path).filter(|_| log.is_held());
                    let Some(known) = known else { continue };
                    known.took = known.asked.take().map(|since| now - since);
                    (known.modified, known.due) = (log.modified(), known.due || log.more);
                    moved |= known.folders != folders;
                    (known.folders, known.log) = (folders, Some(log));
                }
            }
        }
        if found && self.searches.iter().all(Search::is_known) {
            self.adopt(now);
        }
        if moved {
            self.rewatch();
        }
    }

    /// Time goes by for all runs but those whose file system is silent.
    fn tick(&self, now: Unix) {
        let mut state = self.shared.lock();
        state.runs.values_mut().for_each(|run| run.log.asked = None);
        for log in self.logs.values().filter(|log| log.asked.is_some()) {
            if let Some(run) = state.runs.get_mut(&log.run) {
                let first = |since: Unix| run.log.asked.map_or(since, |other| other.min(since));
                run.log.asked = log.asked.map(first);
                run.log.mount = log.mount.at.display().to_string();
            }
        }
        state.tick(now);
    }

    /// Finds new logs, lets go of old ones, and watches the folders of those that are left.
    fn search(&mut self, now: Unix) {
        if !(0.0..MOUNTS).contains(&(now - self.mounts_read)) {
            (self.mounts, self.mounts_read) = (Mounts::read(), now);
            for (path, log) in &mut self.logs {
                log.mount = self.mounts.of(path);
            }
        }
        self.ask_sources(now);
        self.adopt(now);
        self.retire(now);
        self.ask_folders(now);
        self.rewatch();
    }

    /// Has the logs read that may have gained something, one turn of each.
    fn look(&mut self, happened: &Happened, pace: Pace) {
        let patience = pace.rest.as_secs_f64();
        for (path, followed) in &mut self.logs {
            let mut folders = followed.folders.iter();
            followed.due |= happened.everything
                || followed.took.is_none()
                || folders.any(|folder| happened.changed.contains(&folder.path));
            if !followed.due {
                if let Some(log) = &mut followed.log {
                    log.rest(patience, self.shared);
                }
                continue;
            }
            let Some(mut log) = followed.log.take() else {
                continue;
            };
            (followed.due, followed.asked) = (false, Some(now()));
            let (lost, path, shared) = (path.clone(), path.clone(), self.shared.clone());
            self.lanes.ask(
                &followed.mount.at,
                || Answer::Read(lost, None, Vec::new()),
                move || {
                    log.read(&shared);
                    log.rest(patience, &shared);
                    let folders = folders::of(&path);
                    Answer::Read(path, Some(log), folders)
                },
            );
        }
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
                    if let Some(real) = self.data.get(folder).and_then(folders::Data::real) {
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
    fn report(&self, state: &mut State, now: Unix) {
        let known = |search: &Search| search.is_known() || search.late(STALL, now);
        let read = |log: &Followed| log.took.is_some() || log.late(PATIENCE, now);
        if !self.searches.iter().all(known) || !self.logs.values().all(read) {
            return;
        }
        let silent = self.logs.values().find(|log| log.late(STALL, now));
        let silent = silent.map(|log| log.mount.at.display().to_string());
        let sources = self.searches.iter().zip(&self.config.logs);
        let unfound = sources.filter(|(search, _)| search.late(STALL, now));
        let silent = silent.or_else(|| unfound.map(|(_, source)| source.path.clone()).next());
        let silent = silent.map(|place| format!("{place} does not answer: its logs are not read"));
        let failed = silent.or_else(|| state.runs.values().find_map(|run| run.log.error.clone()));
        let took = self
            .logs
            .values()
            .filter_map(|log| log.took)
            .fold(0.0, f64::max);
        state.record_source("log", failed.map_or(Ok(()), Err), took, now);
        if self
            .config
            .logs
            .iter()
            .any(|source| !source.val_data.is_empty())
        {
            let absent = self.data.iter().find_map(|(folder, data)| {
                Some(format!("{}: {}", folder.display(), data.trouble(now)?))
            });
            let told = state
                .sources
                .get("data")
                .and_then(|data| data.error.as_ref());
            if let Some(why) = absent.as_ref().filter(|why| told != Some(*why)) {
                tracing::warn!(why, "validation files cannot be counted");
            }
            state.record_source("data", absent.map_or(Ok(()), Err), 0.0, now);
        }
        state.exporter.ready = true;
    }
}
