//! Another configuration, while logs are followed: what it says of a run applies to it, and nothing that was learned of
//! the run is lost. A log that is read or named otherwise begins anew, as after a restart; one that is no longer named
//! is let go. A lower `run_max` ends no run: it holds for those that come.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::adopt::Search;
use super::{Files, now};
use crate::config::{Config, LogSource};
use crate::job::cadence::Limits;
use crate::node::data::Opened;
use crate::state::Run;

impl Files<'_> {
    /// Works by this configuration from here on. True if it is another one.
    pub(super) fn renew(&mut self, config: Arc<Config>) -> bool {
        if Arc::ptr_eq(&config, &self.config) {
            return false;
        }
        let old = std::mem::replace(&mut self.config, config);
        self.renew_searches(&old);
        if old.limits.retention != self.config.limits.retention {
            self.adoption.forget_past();
        }
        self.renew_logs(&old);
        self.renew_runs();
        true
    }

    /// A search that goes on keeps what it knows, and above all that it waits for an answer.
    fn renew_searches(&mut self, old: &Config) {
        let mut searches = std::mem::take(&mut self.searches);
        let mut paths: Vec<&str> = old.logs.iter().map(|source| source.path.as_str()).collect();
        let search = |source: &LogSource| {
            let known = paths.iter().position(|path| *path == source.path);
            known.map_or_else(Search::default, |at| {
                paths.swap_remove(at);
                searches.swap_remove(at)
            })
        };
        self.searches = self.config.logs.iter().map(search).collect();
    }

    /// Lets go of the logs that are not named any more, and of all logs of a run of which one is read otherwise.
    fn renew_logs(&mut self, old: &Config) {
        let config = self.config.clone();
        let mut gone = Vec::new();
        let mut otherwise = HashSet::new();
        for (path, log) in &mut self.logs {
            let before = &old.logs[log.source];
            let source = config.logs.iter().position(|source| names(source, path));
            let Some(source) = source.filter(|&source| before.run == config.logs[source].run)
            else {
                gone.push(path.clone());
                continue;
            };
            log.source = source;
            let after = &config.logs[source];
            let named = after.preset.as_deref();
            if before.preset != after.preset || !config.presets.read_alike(&old.presets, named) {
                otherwise.insert(log.run.clone());
            }
        }
        let mut state = self.shared.lock();
        for path in gone {
            self.adoption.forget(&path);
            let Some(log) = self.logs.remove(&path) else {
                continue;
            };
            tracing::info!(log = ?path, run = ?log.run, "let go: the configuration does not name it any more");
            if !self.logs.values().any(|other| other.run == log.run) {
                state.runs.remove(&log.run);
            }
        }
        let anew = self
            .logs
            .extract_if(.., |_, log| otherwise.contains(&log.run));
        for (path, log) in anew {
            tracing::info!(log = ?path, run = ?log.run, "begins anew: the configuration reads it otherwise");
            state.runs.remove(&log.run);
        }
    }

    /// What is configured for the runs that go on.
    fn renew_runs(&self) {
        let mut state = self.shared.lock();
        let mut of_runs: BTreeMap<&str, Vec<(&PathBuf, usize)>> = BTreeMap::new();
        for (path, log) in &self.logs {
            of_runs
                .entry(&log.run)
                .or_default()
                .push((path, log.source));
        }
        for (name, logs) in of_runs {
            let Some(run) = state.runs.get_mut(name) else {
                continue;
            };
            // It is told by the log that it began with, as long as that is followed.
            let first = logs
                .iter()
                .find(|(path, _)| run.info.log_path == path.display().to_string());
            let (path, source) = *first.unwrap_or(&logs[0]);
            configure(run, path, &self.config.logs[source], &self.config.limits);
        }
        if self
            .config
            .logs
            .iter()
            .all(|source| source.val_data.is_empty())
        {
            state.sources.remove("data");
        }
    }
}

/// What the configuration says of the run of this log.
pub(super) fn configure(run: &mut Run, log: &Path, source: &LogSource, limits: &Limits) {
    let info = &mut run.info;
    info.log_path = log.display().to_string();
    info.user.clone_from(&source.user);
    info.team.clone_from(&source.team);
    info.alerting = source.alerting;
    info.nodes = source.nodes;
    info.val_data = !source.val_data.is_empty();
    run.job.configure(limits.clone(), source.val_files);
    if source.val_data.is_empty() {
        run.job.opened_files(None, now());
        (run.opened, run.files_opened, run.shares_data) = (Opened::default(), None, false);
    }
}

/// The source names this path, whether there is a file or not.
fn names(source: &LogSource, log: &Path) -> bool {
    let whole = std::path::absolute(&source.path).unwrap_or_else(|_| PathBuf::from(&source.path));
    // As a search finds it: no `*` reaches into another folder.
    let each_folder = glob::MatchOptions {
        require_literal_separator: true,
        ..glob::MatchOptions::new()
    };
    let pattern = glob::Pattern::new(&whole.to_string_lossy());
    whole == log || pattern.is_ok_and(|pattern| pattern.matches_path_with(log, each_folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::follow::Follower;
    use crate::log::reader::Presets;
    use crate::run::followed::Log;
    use crate::state::Shared;

    #[test]
    fn a_log_that_was_let_go_says_nothing_of_a_run_of_that_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("train.log");
        std::fs::write(&path, "Training epoch 2/9 started\n").expect("written");
        let shared = Shared::default();
        let run = Run::new("r", Limits::default());
        shared.lock().runs.insert("r".to_owned(), run);
        let epoch_by = |hold: Option<Arc<()>>| {
            let reader = Presets::built_in().reader(None);
            let log = Log::new("r".to_owned(), Follower::new(&path), reader);
            let mut log = log.held_by(&hold.clone().unwrap_or_default());
            log.read(&shared);
            shared.lock().runs["r"].job.epoch
        };
        assert_eq!(epoch_by(None), None);
        assert_eq!(epoch_by(Some(Arc::default())), Some(2));
    }

    #[test]
    fn a_source_names_what_its_search_would_find() {
        for (source, log, named) in [
            ("/runs/a.log", "/runs/a.log", true),
            ("/runs/./a.log", "/runs/a.log", true),
            ("/runs/*.log", "/runs/a.log", true),
            ("/runs/*.log", "/runs/a/b.log", false),
            ("/runs/*/*.log", "/runs/a/b.log", true),
            ("/runs/**/*.log", "/runs/a/b/c.log", true),
            ("/runs/[ab].log", "/runs/c.log", false),
            // A file of that very name, which is no pattern then.
            ("/runs/[ab].log", "/runs/[ab].log", true),
        ] {
            assert_eq!(
                names(&LogSource::path(source), Path::new(log)),
                named,
                "{source}: {log}"
            );
        }
    }
}
