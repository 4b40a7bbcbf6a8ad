//! The folders that are watched: where logs change, and where validation files are opened.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Answer, Files};
use crate::job::Unix;
use crate::state::STALL;

/// A folder that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl Folder {
    fn at(path: &Path) -> Option<Self> {
        let there = fs::metadata(path).ok().filter(fs::Metadata::is_dir)?;
        let identity = (there.dev(), there.ino());
        Some(Self {
            path: path.to_owned(),
            identity,
        })
    }
}

/// The folders in which changes of a log are told: a link's target changes without an event in the link's folder.
pub(super) fn of(log: &Path) -> Vec<Folder> {
    let real = fs::canonicalize(log).ok();
    let places = [Some(log), real.as_deref()].into_iter().flatten();
    let mut folders: Vec<Folder> = places
        .filter_map(|path| Folder::at(path.parent()?))
        .collect();
    folders.dedup();
    folders
}

/// A configured data folder.
#[derive(Debug, Default)]
pub(super) struct Data {
    /// Where it really is: files that are links are opened where they lead to, which its own watch does not see.
    real: Option<Folder>,
    asked: Option<Unix>,
    known: bool,
}

impl Data {
    /// Takes in an answer. True if it is another one than before.
    pub(super) fn answered(&mut self, real: Option<Folder>) -> bool {
        (self.asked, self.known) = (None, true);
        let moved = self.real != real;
        self.real = real;
        moved
    }

    /// Where it really is.
    pub(super) fn real(&self) -> Option<&PathBuf> {
        self.real.as_ref().map(|folder| &folder.path)
    }

    /// Why nothing can be seen there.
    pub(super) fn trouble(&self, now: Unix) -> Option<&'static str> {
        if self.asked.is_some_and(|since| now - since > STALL) {
            return Some("its file system does not answer");
        }
        (self.known && self.real.is_none()).then_some("no such folder")
    }
}

impl Files<'_> {
    /// Asks where the data folders of live runs are.
    pub(super) fn ask_folders(&mut self, now: Unix) {
        let state = self.shared.lock();
        let runs = &state.runs;
        let live = self.logs.values().filter(|log| {
            let run = runs.get(&log.run);
            run.is_some_and(|run| !run.job.phase.over())
        });
        let wanted: HashSet<&PathBuf> = live
            .flat_map(|log| &self.config.logs[log.source].val_data)
            .collect();
        drop(state);
        self.data.retain(|folder, _| wanted.contains(folder));
        for folder in wanted {
            let data = self.data.entry(folder.clone()).or_default();
            if data.asked.is_some() {
                continue;
            }
            data.asked = Some(now);
            let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
            let lane = self.mounts.of(&whole).at;
            let (lost, folder) = (folder.clone(), folder.clone());
            self.lanes.ask(
                &lane,
                || Answer::Data(lost, None),
                move || {
                    let real = fs::canonicalize(&folder).ok();
                    let real = real.and_then(|real| Folder::at(&real));
                    Answer::Data(folder, real)
                },
            );
        }
    }

    /// Watches the folders that are there and no others. Far ones are not: what another node writes makes no event, so
    /// they are looked at every second, and a watch would only ask one more question that may never be answered.
    pub(super) fn rewatch(&mut self) {
        let near = self.logs.values().filter(|log| log.mount.far.is_none());
        let near = near.flat_map(|log| &log.folders);
        let data = self.data.values().filter_map(|data| data.real.as_ref());
        let there: HashMap<PathBuf, (u64, u64)> = near
            .clone()
            .chain(data.clone())
            .map(|folder| (folder.path.clone(), folder.identity))
            .collect();
        let paths = |folder: &Folder| folder.path.clone();
        let (logs, data) = (near.map(paths).collect(), data.map(paths).collect());
        // A folder that was deleted and made again needs a new watch, and no event tells of it.
        for (folder, identity) in &there {
            if self.folders.get(folder).is_some_and(|old| old != identity) {
                self.watch.forget(folder);
            }
        }
        self.folders = there;
        for e in self.watch.keep(&logs, &data) {
            tracing::warn!(error = %e, "a folder cannot be watched: looking every second");
            self.shared.lock().exporter.watch_errors += 1;
        }
        let mut state = self.shared.lock();
        for log in self.logs.values() {
            if let Some(run) = state.runs.get_mut(&log.run) {
                let mut folders = log.folders.iter();
                let deaf = folders.any(|folder| self.watch.sees_since(&folder.path).is_none());
                let deaf = deaf.then_some("without a watch");
                run.log.polled = log.mount.far.clone().map(|kind| format!("on {kind}"));
                run.log.polled = run.log.polled.take().or_else(|| deaf.map(str::to_owned));
                run.log.watched = run.log.polled.is_none() && !log.folders.is_empty();
            }
        }
    }
}
