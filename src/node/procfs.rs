//! The processes of a run as `/proc` shows them: from the log to its writers, from these to the ranks and their loader
//! workers, and what their main threads did.
//!
//! No look waits for a process that hangs: only files are read that the kernel answers from its own books. Whoever
//! vanishes during a look was not there. What may not be seen without `CAP_SYS_PTRACE` is absent from the counters; if
//! the writers themselves may not be seen, the error says so and names the way out.

mod freezer;
pub mod outlet;
mod people;
mod roles;
pub mod standing;
mod table;
mod tally;
mod text;
mod writers;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::process::{Processes, Seen};
use freezer::Freezer;
use people::People;
use roles::cast;
use table::{Id, Table};
use tally::Tally;
use writers::{Origin, Target, holders, origin};

/// Each so many looks all processes are asked anew what they have open: once a minute, at a look each 5 s.
const THOROUGH: u64 = 12;
/// The same while nobody is known to write the log.
const SEARCHING: u64 = 3;
/// A new process may still be about to get its stdout: so many looks ask it.
const YOUNG: u8 = 2;
/// After so many looks at other logs, one that is not asked for any more is forgotten.
const FORGET: u64 = 10_000;

/// The processes of this machine.
#[derive(Debug)]
pub struct ProcFs {
    table: Table,
    people: People,
    freezer: Freezer,
    gpu_pids: HashSet<u32>,
    logs: HashMap<PathBuf, Followed>,
    /// The logs that were looked at with this table; a second look at one takes a new table.
    served: HashSet<PathBuf>,
    tables: u64,
    looks: u64,
}

/// What is known of the writers of one log.
#[derive(Debug, Default)]
struct Followed {
    target: Option<Target>,
    holders: BTreeSet<Id>,
    /// Processes whose open files may not be seen.
    hidden: BTreeSet<u32>,
    /// How often new processes were asked.
    asked: HashMap<Id, u8>,
    tally: Tally,
    /// Its ranks were programs: a shell that is left when they have ended is none.
    programs: bool,
    looks: u64,
    last_look: u64,
    /// Somebody was in uninterruptible sleep at the last look.
    stuck: bool,
    told_limits: bool,
}

impl Default for ProcFs {
    fn default() -> Self {
        Self::new("/proc")
    }
}

impl ProcFs {
    /// The processes under this root.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            table: Table::new(root.into()),
            people: People::default(),
            freezer: Freezer::default(),
            gpu_pids: HashSet::new(),
            logs: HashMap::new(),
            served: HashSet::new(),
            tables: 0,
            looks: 0,
        }
    }

    /// One table serves all logs of a round.
    fn refresh(&mut self, log: &Path) -> anyhow::Result<()> {
        self.looks += 1;
        let looks = self.looks;
        if self.tables == 0 || self.served.contains(log) {
            let thoroughly = self.tables.is_multiple_of(THOROUGH);
            self.table.take(thoroughly)?;
            self.tables += 1;
            self.served.clear();
            self.people.retain(&self.table);
            self.freezer.begin(&self.table, thoroughly);
            self.logs
                .retain(|_, followed| looks - followed.last_look < FORGET);
        }
        self.served.insert(log.to_owned());
        Ok(())
    }
}

impl Processes for ProcFs {
    fn read(&mut self, log: &Path) -> anyhow::Result<Seen> {
        self.refresh(log)?;
        let Self {
            table,
            people,
            freezer,
            gpu_pids,
            ..
        } = self;
        let followed = self.logs.entry(log.to_owned()).or_default();
        followed.last_look = self.looks;
        followed.find(table, log)?;
        let held: BTreeSet<u32> = followed.holders.iter().map(|id| id.pid).collect();
        let origin = origin(table, people, &held);
        let roles = cast(table, people, &origin.pids, gpu_pids, !followed.programs);
        followed.programs |= !roles.ranks.is_empty() && !roles.shells;
        let seen = followed.tally.look(table, &roles, freezer);
        followed.stuck = seen.counters.uninterruptible > 0;
        if seen.pids.is_empty() && !followed.tally.knows_ranks() {
            followed.must_see(table, log, &origin)?;
            return Ok(Seen::default());
        }
        if seen.counters.limited() && !followed.told_limits {
            followed.told_limits = true;
            tracing::warn!(
                log = %log.display(),
                "what its processes read and write may not be seen, so that they do nothing proves nothing: grant this \
                 exporter CAP_SYS_PTRACE, or run it as the training's user"
            );
        }
        Ok(seen)
    }

    fn gpu_pids(&mut self, pids: &[u32]) {
        self.gpu_pids = pids.iter().copied().collect();
    }
}

impl Followed {
    /// Brings up to date who holds the log.
    fn find(&mut self, table: &Table, log: &Path) -> anyhow::Result<()> {
        self.holders.retain(|id| table.has(*id));
        self.asked.retain(|id, _| table.has(*id));
        let pause = if self.holders.is_empty() {
            SEARCHING
        } else {
            THOROUGH
        };
        // The log's file system is not asked while it may be the one that does not answer.
        let thoroughly = self.looks.is_multiple_of(pause) && !self.stuck;
        self.looks += 1;
        let known = self.target.clone();
        if known.is_none() || thoroughly {
            match Target::of(log) {
                Ok(target) => self.target = Some(target),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(e).with_context(|| format!("{}", log.display())),
            }
        }
        let Some(target) = self.target.clone() else {
            return Ok(());
        };
        let mut asked = Vec::new();
        for id in table.pids().filter_map(|pid| table.id(pid)) {
            let times = self.asked.entry(id).or_default();
            if thoroughly || *times < YOUNG {
                *times = times.saturating_add(1);
                asked.push(id.pid);
            }
        }
        let (found, hidden) = holders(table, &target, asked.into_iter());
        if !thoroughly {
            self.hidden.extend(hidden);
        } else if found.is_empty() && known.as_ref().is_some_and(|known| *known != target) {
            // A rotation: those who hold the old file write on there.
            self.target = known;
            self.hidden = hidden;
        } else {
            // Who cannot be asked any more is still believed.
            self.holders.retain(|id| hidden.contains(&id.pid));
            self.hidden = hidden;
        }
        self.holders
            .extend(found.into_iter().filter_map(|pid| table.id(pid)));
        Ok(())
    }

    /// That nobody was found means something only if whoever could write the log may be seen.
    fn must_see(&self, table: &Table, log: &Path, origin: &Origin) -> anyhow::Result<()> {
        let owner = self.target.as_ref().map(|target| target.owner);
        let foreign = self.hidden.iter().filter(|&&pid| {
            let user = std::fs::metadata(table.path(pid, "")).map(|meta| meta.uid());
            table.stat(pid).is_some() && (origin.lost || user.ok() == owner)
        });
        let foreign = foreign.count();
        if foreign > 0 {
            bail!(
                "who writes {} cannot be seen: {foreign} processes of another user keep their open files from this \
                 exporter; grant it CAP_SYS_PTRACE, or run it as the training's user",
                log.display()
            );
        }
        if owner.is_some() && table.stat(1).is_none() {
            bail!(
                "who writes {} cannot be seen: other processes are hidden from this exporter (/proc is mounted with \
                 hidepid, or it has a PID namespace of its own); grant it CAP_SYS_PTRACE and the host's PID namespace, \
                 or run it as the training's user",
                log.display()
            );
        }
        Ok(())
    }
}
