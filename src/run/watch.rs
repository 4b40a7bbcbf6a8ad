//! One inotify instance for the whole exporter: which folders have changed, which validation files were opened.
//!
//! Where there is no watch (none is to be had, or the file system sends no events), the look every second still finds
//! everything but opened files. The callback never waits: it fills two sets and rings once.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use notify::event::{AccessKind, EventKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

use super::{Wake, now};
use crate::job::Unix;

/// At most so many opened files wait to be counted; beyond it a pass is over before anybody looks.
const OPENED: usize = 1_000_000;

/// What has happened since the last look.
#[derive(Debug, Default)]
pub(super) struct Happened {
    /// Folders in which something was written, made, moved or deleted.
    pub(super) changed: HashSet<PathBuf>,
    /// Look everywhere.
    pub(super) everything: bool,
    /// How often events were lost: the watch failed, or more came than the queue holds.
    pub(super) lost: u64,
    /// Files opened in the data folders, and when.
    pub(super) opened: HashMap<PathBuf, Unix>,
}

#[derive(Debug, Default)]
struct Inbox {
    happened: Happened,
    /// When events were last lost, in Unix seconds; 0 if never.
    lost: Unix,
    /// The folders that are watched, and those of them that were deleted or moved: one that is made again, even with
    /// the same inode, needs a new watch.
    watched: HashSet<PathBuf>,
    gone: HashSet<PathBuf>,
    data: HashSet<PathBuf>,
}

/// The watch.
pub(super) struct Watch {
    watcher: Option<RecommendedWatcher>,
    inbox: Arc<Mutex<Inbox>>,
    /// The folders that are watched, and since when; those that cannot be are here, too.
    folders: HashMap<PathBuf, Option<Unix>>,
}

impl Watch {
    /// A watch that rings `waker`. Without an inotify instance it watches nothing, and tells why.
    pub(super) fn new(waker: SyncSender<Wake>) -> (Self, Option<notify::Error>) {
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        let handler = {
            let inbox = inbox.clone();
            move |event: notify::Result<Event>| {
                if inbox
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(event)
                {
                    // Full: somebody rang already.
                    let _ = waker.try_send(Wake::Files);
                }
            }
        };
        match notify::recommended_watcher(handler) {
            Ok(watcher) => (
                Self {
                    watcher: Some(watcher),
                    inbox,
                    folders: HashMap::new(),
                },
                None,
            ),
            Err(e) => (
                Self {
                    watcher: None,
                    inbox,
                    folders: HashMap::new(),
                },
                Some(e),
            ),
        }
    }

    /// Watches these folders and no others; in those of `data`, opened files are collected. Returns the new errors.
    pub(super) fn keep(
        &mut self,
        logs: &HashSet<PathBuf>,
        data: &HashSet<PathBuf>,
    ) -> Vec<notify::Error> {
        self.inbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .data
            .clone_from(data);
        let Some(watcher) = &mut self.watcher else {
            return Vec::new();
        };
        let lost: Vec<PathBuf> = {
            let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            inbox.watched = logs.union(data).cloned().collect();
            inbox.gone.drain().collect()
        };
        for folder in lost {
            // The kernel dropped the watch together with the folder.
            let _ = watcher.unwatch(&folder);
            self.folders.remove(&folder);
        }
        let gone: Vec<PathBuf> = self
            .folders
            .keys()
            .filter(|f| !logs.contains(*f) && !data.contains(*f))
            .cloned()
            .collect();
        for folder in gone {
            // It may be gone from the disk, too.
            let _ = watcher.unwatch(&folder);
            self.folders.remove(&folder);
        }
        let mut errors = Vec::new();
        for folder in logs.union(data) {
            if self.folders.contains_key(folder) {
                continue;
            }
            let result = watcher.watch(folder, RecursiveMode::NonRecursive);
            self.folders
                .insert(folder.clone(), result.is_ok().then(now));
            errors.extend(result.err());
        }
        errors
    }

    /// Forgets a folder, so that it is watched anew: it was deleted and made again, or could not be watched.
    pub(super) fn forget(&mut self, folder: &Path) {
        if self.folders.remove(folder).is_some()
            && let Some(watcher) = &mut self.watcher
        {
            let _ = watcher.unwatch(folder);
        }
    }

    /// Since when all opened files can be seen in this folder; nothing if they cannot.
    pub(super) fn sees_since(&self, folder: &Path) -> Option<Unix> {
        let since = self.folders.get(folder).copied().flatten()?;
        Some(
            since.max(
                self.inbox
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .lost,
            ),
        )
    }

    /// What has happened since this was last asked.
    pub(super) fn happened(&self) -> Happened {
        std::mem::take(
            &mut self
                .inbox
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .happened,
        )
    }
}

impl Inbox {
    /// Takes in an event. True if somebody should look.
    fn take(&mut self, event: notify::Result<Event>) -> bool {
        // An error, or more events than the queue holds.
        let Some(event) = event.ok().filter(|event| !event.need_rescan()) else {
            self.happened.everything = true;
            self.happened.lost += 1;
            self.lost = now();
            return true;
        };
        match event.kind {
            // Our own reading opens files as well, but never in a data folder.
            EventKind::Access(AccessKind::Open(_)) => {
                let opened = &mut self.happened.opened;
                let before = opened.len();
                for path in event.paths {
                    let folder = path.parent();
                    if folder.is_some_and(|folder| self.data.contains(folder)) && before < OPENED {
                        opened.insert(path, now());
                    }
                }
                opened.len() > before
            }
            EventKind::Access(_) => false,
            EventKind::Remove(_) if event.paths.iter().any(|path| self.watched.contains(path)) => {
                self.gone.extend(event.paths);
                self.happened.everything = true;
                true
            }
            EventKind::Any
            | EventKind::Create(_)
            | EventKind::Modify(_)
            | EventKind::Remove(_)
            | EventKind::Other => {
                let folders = event
                    .paths
                    .iter()
                    .filter_map(|path| path.parent().map(Path::to_owned));
                self.happened.changed.extend(folders);
                true
            }
        }
    }
}
