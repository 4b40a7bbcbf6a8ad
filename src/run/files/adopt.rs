//! Which logs are followed: those that are named, those that a pattern finds, and for how long.
//!
//! A pattern may match hundreds of logs of runs long past; they make no run. One log makes one run, and two trainings
//! never become one because their logs have the same name.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::names::run_name;
use super::renew::configure;
use super::{Answer, Files, Followed, PATIENCE};
use crate::job::Unix;
use crate::log::follow::{Follower, modified};
use crate::run::followed::Log;
use crate::state::{Run, State};

/// What is remembered about logs beside those that are followed.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    /// Logs that found no room.
    dropped: HashSet<PathBuf>,
    /// Old logs that are let be until they are written again, with the time of their last byte.
    past: HashMap<PathBuf, Unix>,
    /// Every file that was followed: one that was moved aside by a rotation is no new log.
    known: HashMap<File, PathBuf>,
    /// When each log was taken up.
    since: HashMap<PathBuf, Unix>,
}

/// What tells a file from every other: device, inode, and birth, since inodes are used again.
type File = (u64, u64, Option<SystemTime>);

/// What a source names, as its file system answers.
#[derive(Default)]
pub(super) struct Found {
    /// It is a pattern.
    pattern: bool,
    /// The paths, and the files that are there.
    logs: Vec<(PathBuf, Option<Metadata>)>,
    /// One of its matches, if none is a regular file.
    refused: Option<PathBuf>,
}

/// The search for the logs of one source.
#[derive(Default)]
pub(super) struct Search {
    asked: Option<Unix>,
    found: Option<Found>,
}

impl Search {
    /// Takes in what `pattern` names, and tells in the exporter's own log if that is nothing that can be read.
    pub(super) fn answered(&mut self, found: Found, pattern: &str) {
        let before = self.found.as_ref();
        match &found.refused {
            Some(path) if before.is_none_or(|before| before.refused != found.refused) => {
                tracing::warn!(pattern, ?path, "no regular file matches, only such as this");
            }
            None if before.is_none() && found.logs.is_empty() => {
                tracing::info!(pattern, "no file matches yet; it is looked for on");
            }
            Some(_) | None => {}
        }
        (self.asked, self.found) = (None, Some(found));
    }

    /// It is on its way.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// It was answered at least once.
    pub(super) fn is_known(&self) -> bool {
        self.found.is_some()
    }

    /// It has been asked for longer.
    pub(super) fn late(&self, seconds: f64, now: Unix) -> bool {
        self.asked.is_some_and(|since| now - since > seconds)
    }
}

/// A log that could be followed.
struct Candidate {
    source: usize,
    path: PathBuf,
    written: Option<Unix>,
}

impl Files<'_> {
    /// Asks what the sources name. A pattern may reach into many file systems, so it has a lane of its own.
    pub(super) fn ask_sources(&mut self, now: Unix) {
        for (search, source) in self.searches.iter_mut().zip(&self.config.logs) {
            let pattern = source.path.clone();
            let whole = std::path::absolute(&pattern).unwrap_or_else(|_| PathBuf::from(&pattern));
            if search.asked.is_some() {
                // Its log is named all the same, and told as one that is not read.
                if search.late(PATIENCE, now) && !has_wildcards(&pattern) {
                    let logs = vec![(whole, None)];
                    search.found.get_or_insert(Found {
                        logs,
                        ..Found::default()
                    });
                }
                continue;
            }
            search.asked = Some(now);
            let lane = if has_wildcards(&pattern) {
                whole
            } else {
                self.mounts.of(&whole).at
            };
            let lost = pattern.clone();
            self.lanes.ask(
                &lane,
                move || Answer::Found(lost, Found::default()),
                move || {
                    let found = find(&pattern);
                    Answer::Found(pattern, found)
                },
            );
        }
    }

    /// Takes up new logs, those that were written last first.
    pub(super) fn adopt(&mut self, now: Unix) {
        let mut candidates = Vec::new();
        let retention = self.config.limits.retention;
        for (source, search) in self.searches.iter_mut().enumerate() {
            let Some(found) = &mut search.found else {
                continue;
            };
            for (path, there) in found.logs.drain(..) {
                let written = there.as_ref().map(modified);
                if let Some(followed) = self.logs.get_mut(&path) {
                    if let Some(there) = there {
                        followed.modified = followed.modified.or(written);
                        self.adoption.known.insert(file(&there), path);
                    }
                    continue;
                }
                if let Some(there) = &there
                    && self
                        .adoption
                        .is_past(&path, there, found.pattern, now, retention)
                {
                    continue;
                }
                candidates.push(Candidate {
                    source,
                    path,
                    written,
                });
            }
        }
        candidates.sort_by(|a, b| b.written.partial_cmp(&a.written).expect("no NaN"));
        for candidate in candidates {
            self.follow(candidate, now);
        }
    }

    fn follow(
        &mut self,
        Candidate {
            source: index,
            path,
            ..
        }: Candidate,
        now: Unix,
    ) {
        // The first source that names a log has it.
        if self.logs.contains_key(&path) {
            return;
        }
        let config = self.config.clone();
        let source = &config.logs[index];
        let mut state = self.shared.lock();
        let taken = |name: &str| state.runs.contains_key(name);
        let name = source
            .run
            .clone()
            .unwrap_or_else(|| run_name(&source.path, &path, &self.host, taken));
        if !state.runs.contains_key(&name) {
            if state.runs.len() >= config.run_max {
                let Some(old) = least_alive(&state) else {
                    if self.adoption.dropped.insert(path.clone()) {
                        state.exporter.runs_dropped += 1;
                        tracing::warn!(log = ?path, limit = config.run_max, "too many live runs: not followed");
                    }
                    return;
                };
                state.runs.remove(&old);
                let gone = self.logs.extract_if(.., |_, log| log.run == old);
                gone.for_each(|(path, log)| self.adoption.let_be(&path, log.modified));
            }
            let mut run = Run::new(&name, config.limits.clone());
            configure(&mut run, &path, source, &config.limits);
            state.runs.insert(name.clone(), run);
        }
        drop(state);
        tracing::info!(log = ?path, run = ?name, "taken up");
        let preset = source
            .preset
            .as_deref()
            .and_then(|name| config.presets.named(name));
        let mount = self.mounts.of(&path);
        let follower = Follower::new(&path);
        let follower = if mount.far.is_some() {
            follower.far()
        } else {
            follower
        };
        let hold = Arc::new(());
        let log = Log::new(name.clone(), follower, config.presets.reader(preset)).held_by(&hold);
        self.adoption.since.insert(path.clone(), now);
        let followed = Followed {
            source: index,
            run: name,
            mount,
            log: Some(Box::new(log)),
            asked: None,
            took: None,
            due: true,
            _hold: hold,
            modified: None,
            folders: Vec::new(),
        };
        self.logs.insert(path, followed);
    }

    /// Lets go of logs of runs that are over, or that never showed a sign of life.
    pub(super) fn retire(&mut self, now: Unix) {
        let mut state = self.shared.lock();
        let old: Vec<PathBuf> = self
            .logs
            .iter()
            .filter(|(path, log)| {
                let Some(run) = state.runs.get(&log.run) else {
                    return true;
                };
                // One that is on its way comes back first.
                let since = self.adoption.since.get(*path).copied();
                log.log.is_some() && run.past(log.modified, since, now)
            })
            .map(|(path, _)| path.clone())
            .collect();
        for path in old {
            let Some(log) = self.logs.remove(&path) else {
                continue;
            };
            self.adoption.let_be(&path, log.modified);
            if !self.logs.values().any(|other| other.run == log.run) {
                state.runs.remove(&log.run);
            }
        }
    }
}

impl Adoption {
    /// This log is of the past, or a part of one that is followed.
    fn is_past(
        &mut self,
        path: &Path,
        there: &Metadata,
        pattern: bool,
        now: Unix,
        retention: f64,
    ) -> bool {
        if self
            .known
            .get(&file(there))
            .is_some_and(|followed| followed != path)
        {
            return true;
        }
        let written = modified(there);
        if self.past.get(path).is_some_and(|past| *past == written) {
            return true;
        }
        // One that is named is looked at all the same: its processes may live.
        if pattern && now - written > retention {
            if self.past.insert(path.to_owned(), written).is_none() {
                tracing::info!(log = ?path, "not written for longer than the retention: not followed until it is");
            }
            return true;
        }
        false
    }

    /// The log is not taken up again before it is written.
    fn let_be(&mut self, path: &Path, written: Option<Unix>) {
        self.past
            .extend(written.map(|written| (path.to_owned(), written)));
        self.since.remove(path);
    }

    /// Nothing is known of this log: its file may come under another path.
    pub(super) fn forget(&mut self, path: &Path) {
        self.since.remove(path);
        self.known.retain(|_, followed| followed != path);
    }

    /// Whether a log is of the past is asked anew.
    pub(super) fn forget_past(&mut self) {
        self.past.clear();
    }
}

/// The run that may give its place to another: over, or never alive, for longest.
fn least_alive(state: &State) -> Option<String> {
    let idle = state
        .runs
        .values()
        .filter(|run| !run.lives() && (run.job.phase.over() || !run.alive));
    let oldest = idle.min_by(|a, b| {
        let last = |run: &Run| run.log.last_write.unwrap_or(0.0);
        last(a).total_cmp(&last(b))
    });
    oldest.map(|run| run.name.clone())
}

fn file(there: &Metadata) -> File {
    (there.dev(), there.ino(), there.created().ok())
}

fn has_wildcards(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// The paths that a source names now. A plain path is named even before its file is there.
fn find(path: &str) -> Found {
    let whole = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    let pattern = has_wildcards(path) && !whole.exists();
    let (paths, others): (Vec<_>, Vec<_>) = if pattern {
        let found = glob::glob(&whole.to_string_lossy())
            .into_iter()
            .flatten()
            .flatten();
        found.partition(|path| path.is_file())
    } else {
        (vec![whole], Vec::new())
    };
    let refused = others.into_iter().next().filter(|_| paths.is_empty());
    let logs = paths.into_iter().map(|path| {
        let there = fs::metadata(&path).ok();
        (path, there)
    });
    Found {
        pattern,
        logs: logs.collect(),
        refused,
    }
}
