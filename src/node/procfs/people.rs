//! Who a process is, as far as that stays: its rank, and what kind of program it runs.
//!
//! The environment and the command line are read when a process is new, never at each look: reading them waits for the
//! process's memory lock, which one that hangs in uninterruptible sleep may hold for ever. Nothing of them is kept but
//! the rank and the kind.

use std::collections::HashMap;

use super::table::{Id, Table, slurp};
use super::text::Rank;

/// What kind of program a process runs, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing that is known: it may be a rank.
    Program,
    /// A loader worker, by the name that torch gives it.
    Worker,
    /// Runs commands and waits.
    Shell,
    /// Starts the job, or something that starts it, and waits.
    Launcher,
    /// Passes output on.
    Relay,
    /// Watches or reports.
    Sidecar,
    /// Small commands of scripts.
    Trivial,
}

/// First words of names, in groups of a kind.
const SHELLS: &str = "ash bash busybox csh dash fish ksh sh tcsh zsh";
/// `pt_elastic` is torch's own name for torchrun's agent.
const LAUNCHERS: &str = "\
    accelerate apptainer catatonit chrt composer conda deepspeed doas dumb-init env flock gdb horovodrun \
    hydra_pmi_proxy init ionice make mamba micromamba mpiexec mpirun ncu nice nohup nsys numactl orterun parallel pdm \
    perf pipenv poetry prterun pt_elastic runsv runuser s6-supervise setpriv setsid singularity slurmstepd starter \
    starter-suid stdbuf strace su sudo supervisord systemd systemd-run taskset time timeout tini torchrun uv uvx watch \
    xargs";
/// Also clients and servers whose job runs elsewhere: what they do says nothing of it.
const RELAYS: &str = "\
    awk cat conmon containerd containerd-shim cronolog cut docker dockerd egrep expect gawk grep head kubectl kubelet \
    less logger mawk multilog podman pv rotatelogs s6-log screen script sed sponge srun ssh svlogd tail tee tmux: tr ts \
    unbuffer";
const TRIVIAL: &str = "date echo printf seq sleep true yes";
/// Beginnings of names.
const SIDECARS: &[&str] = &[
    "aim",
    "dcgm",
    "gpustat",
    "htop",
    "mlflow",
    "node_exporter",
    "nvidia-smi",
    "nvitop",
    "nvtop",
    "psrecord",
    "py-spy",
    "tensorboard",
    "top",
    "training-export",
    "wandb",
];

impl Kind {
    pub(super) fn named(name: &str) -> Self {
        let word = name.split(' ').next().unwrap_or(name);
        let among = |names: &str| names.split(' ').any(|known| known == word);
        if name == "pt_data_worker" {
            Self::Worker
        } else if among(SHELLS) {
            Self::Shell
        } else if among(LAUNCHERS) {
            Self::Launcher
        } else if among(RELAYS) {
            Self::Relay
        } else if among(TRIVIAL) {
            Self::Trivial
        } else if SIDECARS.iter().any(|sidecar| name.starts_with(sidecar)) {
            Self::Sidecar
        } else {
            Self::Program
        }
    }
}

/// What a Python process was started for, where its command line tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Task {
    /// Nothing that is known.
    #[default]
    Own,
    /// A worker of `multiprocessing` that was spawned instead of forked, or the server that forks them.
    Spawned,
    /// Keeps book of what spawned workers share.
    Tracker,
    /// Compiles for its parent (torch's inductor).
    Compiler,
}

impl Task {
    fn parse(command: &str) -> Self {
        if command.contains("resource_tracker") {
            Self::Tracker
        } else if command.contains("compile_worker") {
            Self::Compiler
        } else if command.contains("from multiprocessing.") || command.contains("loky.backend") {
            Self::Spawned
        } else {
            Self::Own
        }
    }
}

/// A process.
#[derive(Clone, Debug)]
pub(super) struct Person {
    pub(super) kind: Kind,
    pub(super) task: Task,
    pub(super) rank: Option<Rank>,
    forked: bool,
    name: String,
    /// Looks at it so far.
    looks: u8,
}

/// A process may execute another program shortly after its start, under the same name: so many looks ask again.
const YOUNG: u8 = 3;

/// The processes that were met.
#[derive(Debug, Default)]
pub(super) struct People {
    met: HashMap<Id, Person>,
    buffer: Vec<u8>,
}

impl People {
    /// Forgets those who are gone.
    pub(super) fn retain(&mut self, table: &Table) {
        self.met.retain(|id, _| table.has(*id));
    }

    /// Gets to know processes, or knows them again.
    pub(super) fn meet(&mut self, table: &Table, pids: &[u32]) {
        for &pid in pids {
            let (Some(id), Some(stat)) = (table.id(pid), table.stat(pid)) else {
                continue;
            };
            let known = self.met.get(&id);
            let looks = known
                .filter(|known| known.name == stat.name && known.forked == stat.forked())
                .map_or(0, |known| known.looks);
            if looks >= YOUNG {
                continue;
            }
            let mut person = Person {
                kind: Kind::named(&stat.name),
                task: Task::Own,
                rank: None,
                forked: stat.forked(),
                name: stat.name.clone(),
                looks,
            };
            // It may hold the lock: later, if ever.
            if !stat.uninterruptible() {
                person.looks += 1;
                let environ = slurp(&table.path(pid, "environ"), &mut self.buffer);
                person.rank = environ
                    .ok()
                    .and_then(|environ| Rank::parse(environ.as_bytes()));
                if !stat.forked() {
                    let command = slurp(&table.path(pid, "cmdline"), &mut self.buffer);
                    person.task = command.map_or(Task::Own, |command| Task::parse(&command));
                }
            } else if let Some(known) = known {
                person.rank.clone_from(&known.rank);
                person.task = known.task;
            }
            self.met.insert(id, person);
        }
    }

    pub(super) fn get(&self, table: &Table, pid: u32) -> Option<&Person> {
        self.met.get(&table.id(pid)?)
    }

    /// A program that has a rank.
    pub(super) fn rank(&self, table: &Table, pid: u32) -> Option<&Rank> {
        let person = self.get(table, pid)?;
        person
            .rank
            .as_ref()
            .filter(|_| person.kind == Kind::Program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_kinds() {
        let kinds = [
            ("python3.11", Kind::Program),
            ("pt_main_thread", Kind::Program),
            ("pt_data_worker", Kind::Worker),
            ("pt_elastic", Kind::Launcher),
            ("tee", Kind::Relay),
            ("wandb-service(2", Kind::Sidecar),
            ("bash", Kind::Shell),
            ("sleep", Kind::Trivial),
        ];
        for (name, kind) in kinds {
            assert_eq!(Kind::named(name), kind, "{name}");
        }
    }

    #[test]
    fn command_lines_tell_workers_from_helpers() {
        let spawned = "python\0-c\0from multiprocessing.spawn import spawn_main; spawn_main(5)\0--multiprocessing-fork";
        let tracker = "python\0-c\0from multiprocessing.resource_tracker import main;main(4)";
        let compiler = "python\0torch/_inductor/compile_worker/__main__.py\0--workers=8";
        assert_eq!(Task::parse(spawned), Task::Spawned);
        assert_eq!(Task::parse(tracker), Task::Tracker);
        assert_eq!(Task::parse(compiler), Task::Compiler);
        assert_eq!(Task::parse("python\0train.py"), Task::Own);
    }
}
