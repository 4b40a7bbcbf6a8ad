//! The sums over a run's ranks and loader workers. They never fall while a rank of the run goes on: what workers that
//! have ended did stays counted. Other ranks begin from nothing.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;

use super::freezer::Freezer;
use super::roles::{Other, Roles};
use super::table::{Id, Table, forbidden, slurp};
use super::text::{Io, Stat, TICKS, written_to};
use crate::node::process::{Counters, Seen};

/// What is counted of one process, or of many; CPU times in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    main_cpu: u64,
    all_cpu: u64,
    faults: u64,
    read: u64,
    written: u64,
    disk: u64,
}

impl Sums {
    fn with(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            main_cpu: of(self.main_cpu, other.main_cpu),
            all_cpu: of(self.all_cpu, other.all_cpu),
            faults: of(self.faults, other.faults),
            read: of(self.read, other.read),
            written: of(self.written, other.written),
            disk: of(self.disk, other.disk),
        }
    }
}

/// One process that is or was a rank or worker.
#[derive(Clone, Debug, Default)]
struct Counted {
    /// What it had done before it was one.
    before: Sums,
    now: Sums,
    /// Where its main thread was, at the last look.
    syscall: Option<String>,
}

/// A command below a rank; CPU times in clock ticks.
#[derive(Clone, Copy, Debug)]
struct Command {
    parent: Option<Id>,
    own: u64,
    reaped: u64,
    counted: u64,
    looks: u32,
}

/// For so many looks a command is new, and counts: 2 minutes. A sidecar without a known name works for longer.
const NEW: u32 = 24;

/// The sums of one run, and what they are made of.
#[derive(Debug, Default)]
pub(super) struct Tally {
    ranks: BTreeSet<Id>,
    counted: HashMap<Id, Counted>,
    /// Of processes that have ended.
    gone: Sums,
    commands: HashMap<Id, Command>,
    command_cpu: u64,
    /// The beginning of the youngest process at the last look: who is older was there before. In clock ticks.
    youngest: Option<u64>,
    buffer: Vec<u8>,
}

/// One process at a look.
struct Look {
    stat: Stat,
    /// Absent where it may not be read.
    io: Option<(Io, Io)>,
    /// Absent where it may not be read.
    syscall: Option<String>,
}

impl Tally {
    /// Ranks were seen here, now or before.
    pub(super) fn knows_ranks(&self) -> bool {
        !self.ranks.is_empty()
    }

    /// Looks at the ranks and workers of the run.
    pub(super) fn look(&mut self, table: &Table, roles: &Roles, freezer: &mut Freezer) -> Seen {
        let ranks: BTreeSet<Id> = roles
            .ranks
            .iter()
            .filter_map(|&pid| table.id(pid))
            .collect();
        if !ranks.is_empty() && ranks.is_disjoint(&self.ranks) {
            *self = Self::default();
        }
        if !ranks.is_empty() {
            self.ranks = ranks;
        }
        let mut seen = Seen::default();
        let (mut io, mut calls) = (true, true);
        let (mut same, mut blocked) = (0, 0);
        for &pid in roles.ranks.iter().chain(&roles.workers) {
            let Some(id) = table.id(pid) else { continue };
            // It may have ended since the table was taken.
            let Ok(look) = self.read(table, pid) else {
                continue;
            };
            let unchanged = self.count(table, id, &look);
            let counters = &mut seen.counters;
            seen.pids.push(pid);
            let rank = roles.ranks.contains(&pid);
            seen.ranks = Some(seen.ranks.unwrap_or(0) + u64::from(rank));
            counters.processes += 1;
            if roles.named.contains(&pid) {
                counters.named_ranks = Some(counters.named_ranks.unwrap_or(0) + 1);
            }
            io &= look.io.is_some();
            calls &= look.syscall.is_some();
            if look.stat.stopped() || freezer.holds(table, id) {
                counters.stopped += 1;
            } else if look.stat.uninterruptible() {
                counters.uninterruptible += 1;
                same += u64::from(unchanged);
            } else if unchanged {
                blocked += u64::from(writes_to_pipe(table, pid, look.syscall.as_deref()));
            }
        }
        self.bury(table);
        self.watch_commands(table, &roles.others);
        self.youngest = table.youngest().max(self.youngest);
        self.fill(&mut seen.counters, io);
        seen.counters.same_syscall = calls.then_some(same);
        seen.counters.stdout_blocked = calls.then_some(blocked);
        seen
    }

    fn read(&mut self, table: &Table, pid: u32) -> io::Result<Look> {
        let bad = || io::Error::from(io::ErrorKind::InvalidData);
        let mut text = |file: &str| {
            slurp(&table.path(pid, file), &mut self.buffer).map(|text| text.into_owned())
        };
        let stat = Stat::parse(&text(&format!("task/{pid}/stat"))?).ok_or_else(bad)?;
        let io = text(&format!("task/{pid}/io")).and_then(|main| Ok((main, text("io")?)));
        let io = allowed(io)?.and_then(|(main, all)| Io::parse(&main).zip(Io::parse(&all)));
        let syscall = allowed(text("syscall"))?;
        Ok(Look { stat, io, syscall })
    }

    /// Counts a process. Tells whether its main thread waits just where it waited at the last look, and has done nothing
    /// since.
    fn count(&mut self, table: &Table, id: Id, look: &Look) -> bool {
        let (main, all) = look.io.unwrap_or_default();
        let now = Sums {
            main_cpu: look.stat.cpu,
            all_cpu: table.stat(id.pid).map_or(0, |stat| stat.cpu),
            faults: look.stat.faults,
            read: main.read,
            written: main.written,
            disk: all.disk,
        };
        let was_there = self.youngest.is_some_and(|youngest| id.started <= youngest);
        let counted = self.counted.entry(id).or_insert_with(|| Counted {
            before: if was_there { now } else { Sums::default() },
            now,
            syscall: None,
        });
        let waits = look
            .syscall
            .as_deref()
            .filter(|line| !line.starts_with("running"));
        let still = |sums: Sums| (sums.main_cpu, sums.faults, sums.read, sums.written);
        let unchanged = waits.is_some()
            && waits == counted.syscall.as_deref()
            && still(now) == still(counted.now);
        counted.now = counted.now.with(now, u64::max);
        counted.syscall = waits.map(str::to_owned);
        unchanged
    }

    /// What processes did that have ended stays counted.
    fn bury(&mut self, table: &Table) {
        let gone = &mut self.gone;
        self.counted.retain(|id, counted| {
            let lives = table.has(*id);
            if !lives {
                let did = counted.now.with(counted.before, u64::saturating_sub);
                *gone = gone.with(did, u64::saturating_add);
            }
            lives
        });
    }

    /// Counts the CPU time of new commands and of those that they waited for. When one ends, its time moves to the one
    /// that waited for it, and is not counted twice.
    fn watch_commands(&mut self, table: &Table, others: &[Other]) {
        let mut moved: HashMap<Id, u64> = HashMap::new();
        self.commands.retain(|id, command| {
            let lives = table.has(*id);
            if let Some(parent) = command.parent.filter(|_| !lives) {
                *moved.entry(parent).or_default() += command.counted;
            }
            lives
        });
        for other in others {
            let (Some(id), Some(stat)) = (table.id(other.pid), table.stat(other.pid)) else {
                continue;
            };
            let is_new = self.youngest.is_some_and(|youngest| id.started > youngest);
            let command = self.commands.entry(id).or_insert(Command {
                parent: table.id(stat.parent),
                own: if is_new { 0 } else { stat.cpu },
                reaped: if is_new { 0 } else { stat.reaped },
                counted: 0,
                looks: if is_new { 0 } else { NEW },
            });
            let own = stat.cpu.saturating_sub(command.own);
            let reaped = stat.reaped.saturating_sub(command.reaped);
            let used = own + reaped.saturating_sub(moved.get(&id).copied().unwrap_or(0));
            if command.looks < NEW || other.compiler {
                command.counted += used;
                self.command_cpu += used;
            }
            command.own = stat.cpu;
            command.reaped = stat.reaped;
            command.looks = command.looks.saturating_add(1);
        }
    }

    fn fill(&self, counters: &mut Counters, io: bool) {
        let sums = self.counted.values().fold(self.gone, |sums, counted| {
            let did = counted.now.with(counted.before, u64::saturating_sub);
            sums.with(did, u64::saturating_add)
        });
        counters.main_cpu_seconds = sums.main_cpu as f64 / TICKS;
        counters.all_cpu_seconds = Some(sums.all_cpu as f64 / TICKS);
        counters.page_faults = sums.faults as f64;
        counters.read_bytes = io.then_some(sums.read as f64);
        counters.written_bytes = io.then_some(sums.written as f64);
        counters.disk_written_bytes = io.then_some(sums.disk as f64);
        counters.child_cpu_seconds = Some(self.command_cpu as f64 / TICKS);
    }
}

/// The main thread is in a write to stdout or stderr, and that is a pipe or a terminal.
fn writes_to_pipe(table: &Table, pid: u32, syscall: Option<&str>) -> bool {
    let Some(number) = syscall.and_then(written_to) else {
        return false;
    };
    let link = fs::read_link(table.path(pid, &format!("fd/{number}")));
    link.is_ok_and(|link| {
        let link = link.to_string_lossy();
        link.starts_with("pipe:[") || link.starts_with("/dev/pts/")
    })
}

/// What may not be read is nothing; other errors stay.
fn allowed<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(e) if forbidden(&e) => Ok(None),
        Err(e) => Err(e),
    }
}
