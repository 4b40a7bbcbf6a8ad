//! Which logs are followed: those that are named, those that a pattern finds, and for how long.
//!
//! A pattern may match hundreds of logs of runs long past; they make no run. One log makes one run, and two trainings
//! never become one because their logs have the same name.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Files;
use crate::job::Unix;
use crate::run::followed::Log;
use crate::state::{Run, State};

/// What is remembered about logs beside those that are followed.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    /// Logs that found no room.
    dropped: HashSet<PathBuf>,
    /// Old logs that are let be until they are written again, with the time of their last byte.
    past: HashMap<PathBuf, SystemTime>,
    /// Every file that was followed: one that was moved aside by a rotation is no new log.
    known: HashMap<File, PathBuf>,
    /// When each log was taken up.
    since: HashMap<PathBuf, Unix>,
}

/// What tells a file from every other: device, inode, and birth, since inodes are used again.
type File = (u64, u64, Option<SystemTime>);

/// A log that could be followed.
struct Candidate {
    source: usize,
    path: PathBuf,
    written: Option<SystemTime>,
}

impl Files<'_> {
    /// Takes up new logs, those that were written last first.
    pub(super) fn adopt(&mut self, now: Unix) {
        let mut candidates = Vec::new();
        for (source, spec) in self.config.logs.iter().enumerate() {
            let pattern = is_pattern(&spec.path);
            for path in matches(&spec.path) {
                let there = fs::metadata(&path).ok();
                if self.logs.contains_key(&path) {
                    if let Some(there) = there {
                        self.adoption.known.insert(file(&there), path);
                    }
                    continue;
                }
                let written = there.as_ref().and_then(|there| there.modified().ok());
                if let Some(there) = &there
                    && self.adoption.is_past(
                        &path,
                        there,
                        pattern,
                        now,
                        self.config.limits.retention,
                    )
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
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.written));
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
        let config = self.config;
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
                gone.for_each(|(path, _)| self.adoption.let_be(&path));
            }
            let mut run = Run::new(&name, config.limits.clone());
            run.info.log_path = path.display().to_string();
            run.info.user.clone_from(&source.user);
            run.info.team.clone_from(&source.team);
            run.info.alerting = source.alerting;
            run.info.nodes = source.nodes;
            run.info.val_data = !source.val_data.is_empty();
            run.job.files_planned = source.val_files;
            state.runs.insert(name.clone(), run);
        }
        drop(state);
        tracing::info!(log = ?path, run = ?name, "taken up");
        let preset = source
            .preset
            .as_deref()
            .and_then(|name| config.presets.named(name));
        let log = Log::new(index, name, &path, config.presets.reader(preset));
        self.adoption.since.insert(path.clone(), now);
        self.logs.insert(path, log);
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
                let since = self.adoption.since.get(*path).copied();
                run.past(log.modified(), since, now)
            })
            .map(|(path, _)| path.clone())
            .collect();
        for path in old {
            let Some(log) = self.logs.remove(&path) else {
                continue;
            };
            self.adoption.let_be(&path);
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
        let Ok(written) = there.modified() else {
            return false;
        };
        if self.past.get(path).is_some_and(|past| *past == written) {
            return true;
        }
        let age = written
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |at| now - at.as_secs_f64());
        // One that is named is looked at all the same: its processes may live.
        if pattern && age > retention {
            if self.past.insert(path.to_owned(), written).is_none() {
                tracing::info!(log = ?path, "not written for longer than the retention: not followed until it is");
            }
            return true;
        }
        false
    }

    /// The log is not taken up again before it is written.
    fn let_be(&mut self, path: &Path) {
        let written = fs::metadata(path).and_then(|there| there.modified());
        self.past
            .extend(written.ok().map(|written| (path.to_owned(), written)));
        self.since.remove(path);
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

fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '[']) && !Path::new(path).exists()
}

/// The paths that a pattern names now. A plain path is named even before its file is there.
fn matches(pattern: &str) -> Vec<PathBuf> {
    let whole = std::path::absolute(pattern).unwrap_or_else(|_| PathBuf::from(pattern));
    if !is_pattern(pattern) {
        return vec![whole];
    }
    let found = glob::glob(&whole.to_string_lossy())
        .into_iter()
        .flatten()
        .flatten();
    found.filter(|path| path.is_file()).collect()
}

/// The derived name of a run: the folders that the pattern left open, the log's stem and the host. A name that is taken
/// by another log gets the folders above it, one after the other.
fn run_name(pattern: &str, path: &Path, host: &str, taken: impl Fn(&str) -> bool) -> String {
    let words = |path: &Path| -> Vec<String> {
        let normal = path
            .components()
            .filter(|part| matches!(part, Component::Normal(_)));
        normal
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect()
    };
    let mut folders = words(path.parent().unwrap_or(Path::new("")));
    let mut open = words(Path::new(pattern).parent().unwrap_or(Path::new("")));
    let stem = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let fixed = open
        .iter()
        .take_while(|word| !word.contains(['*', '?', '[']))
        .count();
    let absolute = Path::new(pattern).is_absolute();
    // A relative pattern says nothing of the folders above it.
    let skipped = if absolute {
        fixed
    } else {
        folders
            .len()
            .saturating_sub(open.len().saturating_sub(fixed))
    };
    let same_depth = absolute && open.len() == folders.len();
    let mut named: Vec<String> = if same_depth {
        let pairs = open.drain(..).zip(&folders);
        pairs
            .filter(|(word, _)| word.contains(['*', '?', '[']))
            .map(|(_, folder)| folder.clone())
            .collect()
    } else if fixed < open.len() {
        folders[skipped.min(folders.len())..].to_vec()
    } else {
        Vec::new()
    };
    named.push(stem);
    let mut name = format!("{}@{host}", named.join("/"));
    while taken(&name) {
        let Some(above) = folders.pop() else { break };
        name = format!("{above}/{name}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_runs_apart() {
        let nobody = |_: &str| false;
        for (pattern, path, name) in [
            ("/runs/a.log", "/runs/a.log", "a@h"),
            ("/runs/*.log", "/runs/a.log", "a@h"),
            ("/runs/*/train.log", "/runs/a/train.log", "a/train@h"),
            ("/r/*/logs/train.log", "/r/A/logs/train.log", "A/train@h"),
            ("/r/**/train.log", "/r/A/b/train.log", "A/b/train@h"),
        ] {
            assert_eq!(
                run_name(pattern, Path::new(path), "h", nobody),
                name,
                "{pattern}"
            );
        }
        let one = |name: &str| name == "train@h" || name == "logs/train@h";
        assert_eq!(
            run_name(
                "/B/logs/train.log",
                Path::new("/B/logs/train.log"),
                "h",
                one
            ),
            "B/logs/train@h"
        );
    }
}
