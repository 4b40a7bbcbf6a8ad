//! Whether a process's control group is frozen: nothing in it runs, though its state still says that it sleeps.

use std::collections::HashMap;
use std::path::PathBuf;

use super::table::{Id, Table, slurp};

/// The control groups of processes, and what was seen of them in this look.
#[derive(Debug, Default)]
pub(super) struct Freezer {
    /// The file that tells it, and the line that says so.
    files: HashMap<Id, Option<(PathBuf, &'static str)>>,
    frozen: HashMap<PathBuf, bool>,
    buffer: Vec<u8>,
}

impl Freezer {
    /// A new look begins. `thoroughly` asks again who is in which group.
    pub(super) fn begin(&mut self, table: &Table, thoroughly: bool) {
        self.frozen.clear();
        self.files.retain(|id, _| !thoroughly && table.has(*id));
    }

    pub(super) fn holds(&mut self, table: &Table, id: Id) -> bool {
        let Self {
            files,
            frozen,
            buffer,
        } = self;
        let file = files.entry(id).or_insert_with(|| {
            let text = slurp(&table.path(id.pid, "cgroup"), buffer).ok()?;
            group(&text).map(|(path, word)| (beside(table).join(path), word))
        });
        let Some((path, word)) = file else {
            return false;
        };
        if let Some(frozen) = frozen.get(path) {
            return *frozen;
        }
        let now = slurp(path, buffer).is_ok_and(|text| text.lines().any(|line| line == *word));
        frozen.insert(path.clone(), now);
        now
    }
}

/// Control groups are mounted beside `/proc`.
fn beside(table: &Table) -> PathBuf {
    table
        .root()
        .parent()
        .unwrap_or(table.root())
        .join("sys/fs/cgroup")
}

/// The file of a process's group that tells whether it is frozen, and the line that says so: cgroups(7), version 2 or
/// the freezer of version 1. The root group cannot be frozen.
fn group(cgroup: &str) -> Option<(PathBuf, &'static str)> {
    let mut found = None;
    for line in cgroup.lines() {
        let (hierarchy, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let path = path.trim_start_matches('/');
        if path.is_empty() || path.contains("..") {
            continue;
        }
        if controllers
            .split(',')
            .any(|controller| controller == "freezer")
        {
            return Some((
                PathBuf::from("freezer").join(path).join("freezer.state"),
                "FROZEN",
            ));
        }
        if hierarchy == "0" {
            found = Some((PathBuf::from(path).join("cgroup.events"), "frozen 1"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_tells_it_is_found() {
        let unified = group("0::/system.slice/train.service\n").map(|(path, _)| path);
        assert_eq!(
            unified,
            Some(PathBuf::from("system.slice/train.service/cgroup.events"))
        );
        let old = group("6:freezer:/slurm/job_1\n0::/x\n").map(|(path, _)| path);
        assert_eq!(
            old,
            Some(PathBuf::from("freezer/slurm/job_1/freezer.state"))
        );
        assert_eq!(group("0::/\n"), None);
        assert_eq!(group("0::/../../other\n"), None);
    }
}
