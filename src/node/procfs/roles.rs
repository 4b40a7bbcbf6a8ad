//! Which processes of a job are ranks, which are their loader workers, and which are other children of theirs.

use std::collections::{BTreeSet, HashSet};

use super::people::{Kind, People, Task};
use super::table::Table;

/// The parts that processes play in a job.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Roles {
    pub(super) ranks: BTreeSet<u32>,
    /// Of these, the ones that their environment names.
    pub(super) named: BTreeSet<u32>,
    /// Loader workers: forked by a rank or a worker and executing nothing since, spawned by `multiprocessing`, or named
    /// so by torch.
    pub(super) workers: BTreeSet<u32>,
    /// The ranks are shells: there was nobody else.
    pub(super) shells: bool,
    /// Compilers and other commands below ranks, without sidecars.
    pub(super) others: Vec<Other>,
}

/// A command that a rank has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Other {
    pub(super) pid: u32,
    /// It belongs to torch's compile workers.
    pub(super) compiler: bool,
}

/// Casts the processes whose output a log holds, and their descendants. A shell counts as a rank only if `shells` may
/// and there is nobody else.
pub(super) fn cast(
    table: &Table,
    people: &mut People,
    writers: &BTreeSet<u32>,
    gpu_pids: &HashSet<u32>,
    shells: bool,
) -> Roles {
    let tree = table.with_descendants(writers.iter().copied());
    people.meet(table, &tree);
    let job = Job {
        table,
        people,
        writers,
    };
    let mut roles = Roles::default();
    let mut ranks = job.by_environment(&tree);
    roles.named.clone_from(&ranks);
    ranks.extend(job.by_gpu(&tree, gpu_pids, &ranks));
    if ranks.is_empty() {
        let top = || {
            let below = |pid: u32| table.ancestors(pid).any(|above| writers.contains(&above));
            writers.iter().copied().filter(move |pid| !below(*pid))
        };
        ranks = top().flat_map(|pid| job.programs(pid)).collect();
        if ranks.is_empty() && shells {
            ranks = top().filter(|pid| job.kind(*pid) == Kind::Shell).collect();
            roles.shells = !ranks.is_empty();
        }
    }
    for &rank in &ranks {
        job.below(rank, &ranks, &mut roles);
    }
    roles.ranks = ranks;
    roles
}

/// The job under the eye.
struct Job<'a> {
    table: &'a Table,
    people: &'a People,
    writers: &'a BTreeSet<u32>,
}

impl Job<'_> {
    fn kind(&self, pid: u32) -> Kind {
        let person = self.people.get(self.table, pid);
        person.map_or(Kind::Trivial, |person| person.kind)
    }

    fn task(&self, pid: u32) -> Task {
        let person = self.people.get(self.table, pid);
        person.map_or(Task::Own, |person| person.task)
    }

    /// The topmost program of each rank. Its children inherit the rank and are none. In a Kubernetes pod everybody has a
    /// `RANK`; who starts processes with a `LOCAL_RANK` and has none is the launcher.
    fn by_environment(&self, tree: &[u32]) -> BTreeSet<u32> {
        let rank = |pid: u32| self.people.rank(self.table, pid);
        let mut launchers = HashSet::new();
        for &pid in tree {
            if rank(pid).is_some_and(|rank| rank.local.is_some()) {
                let above = self.table.ancestors(pid);
                launchers.extend(
                    above.filter(|&above| rank(above).is_none_or(|rank| rank.local.is_none())),
                );
            }
        }
        let is_rank = |pid: u32| rank(pid).is_some() && !launchers.contains(&pid);
        let ranks = tree.iter().copied().filter(|&pid| {
            let mut above = self.table.ancestors(pid);
            is_rank(pid) && !above.any(|above| is_rank(above) && rank(above) == rank(pid))
        });
        ranks.collect()
    }

    /// The topmost programs with a GPU context, where no rank is above.
    fn by_gpu(
        &self,
        tree: &[u32],
        gpu_pids: &HashSet<u32>,
        ranks: &BTreeSet<u32>,
    ) -> BTreeSet<u32> {
        let holds = |pid: &u32| gpu_pids.contains(pid) && self.kind(*pid) == Kind::Program;
        let topmost = |pid: &u32| {
            let mut above = self.table.ancestors(*pid);
            !ranks.contains(pid) && !above.any(|above| holds(&above) || ranks.contains(&above))
        };
        let holders = tree.iter().copied().filter(holds);
        holders.filter(topmost).collect()
    }

    /// The process if it may be a rank; of one that only waits, those that it has started.
    fn programs(&self, pid: u32) -> Vec<u32> {
        let children = self.table.children(pid).iter().copied();
        match self.kind(pid) {
            Kind::Program => vec![pid],
            Kind::Shell => {
                // What a script starts beside the job has its output elsewhere.
                let (inside, outside): (Vec<u32>, Vec<u32>) =
                    children.partition(|child| self.writers.contains(child));
                let started = if inside.is_empty() { outside } else { inside };
                started
                    .into_iter()
                    .flat_map(|pid| self.programs(pid))
                    .collect()
            }
            Kind::Launcher => children.flat_map(|pid| self.programs(pid)).collect(),
            Kind::Worker | Kind::Relay | Kind::Sidecar | Kind::Trivial => Vec::new(),
        }
    }

    /// Sorts what stands below a rank or a worker.
    fn below(&self, pid: u32, ranks: &BTreeSet<u32>, roles: &mut Roles) {
        for &child in self.table.children(pid) {
            if ranks.contains(&child) || self.kind(child) == Kind::Sidecar {
                continue;
            }
            let forked = self.table.stat(child).is_some_and(|stat| stat.forked());
            let task = self.task(child);
            if forked || self.kind(child) == Kind::Worker || task == Task::Spawned {
                if roles.workers.insert(child) {
                    self.below(child, ranks, roles);
                }
            } else if task != Task::Tracker {
                self.commands(child, task == Task::Compiler, roles);
            }
        }
    }

    fn commands(&self, pid: u32, compiler: bool, roles: &mut Roles) {
        if self.kind(pid) == Kind::Sidecar {
            return;
        }
        roles.others.push(Other { pid, compiler });
        for &child in self.table.children(pid) {
            self.commands(child, compiler, roles);
        }
    }
}
