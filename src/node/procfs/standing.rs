//! Where one process stands, for whoever looks at a single hang: the sums of a run say that somebody is stopped, this
//! says who. Only files that the kernel answers from its own books are read, and the environment of nobody who sleeps
//! uninterruptibly.

use std::path::Path;

use super::table::{Table, slurp};
use super::text::{Io, Rank, Stat, TICKS, written_to};

/// One process at one moment. Counters are those of its main thread, since it began; what may not be read is absent.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Its id.
    pub pid: u32,
    /// Its command's name, as it chose it itself.
    pub name: String,
    /// Its rank, where its environment tells.
    pub rank: Option<u64>,
    /// It was forked and runs its parent's program, or torch calls it so: a loader worker.
    pub worker: bool,
    /// The kernel's letter for its main thread: `R`, `S`, `D`, `T`, `t`.
    pub state: char,
    /// When it began, in clock ticks since the machine did: tells it from another one with its id.
    pub started: u64,
    /// How long ago that was, in seconds.
    pub age: f64,
    /// CPU time in seconds.
    pub cpu_seconds: f64,
    /// Page faults, minor and major.
    pub page_faults: f64,
    /// Bytes got from read calls.
    pub read_bytes: Option<f64>,
    /// Bytes given to write calls.
    pub written_bytes: Option<f64>,
    /// The function of the kernel that it sleeps in.
    pub waits_in: Option<String>,
    /// It is in a write to stdout or stderr, and that is this pipe or terminal.
    pub writes_to: Option<String>,
}

impl Standing {
    /// The process `pid` under `root`; none if it is gone.
    pub fn of(root: &Path, pid: u32) -> Option<Self> {
        let table = Table::new(root.to_owned());
        let mut buffer = Vec::new();
        let mut text = |file: String| {
            let text = slurp(&table.path(pid, &file), &mut buffer).ok()?;
            Some(text.into_owned())
        };
        let process = Stat::parse(&text("stat".to_owned())?)?;
        let main = Stat::parse(&text(format!("task/{pid}/stat"))?)?;
        let uptime = slurp(&root.join("uptime"), &mut Vec::new())
            .ok()?
            .into_owned();
        let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
        let io = text(format!("task/{pid}/io")).and_then(|text| Io::parse(&text));
        let waits_in = text("wchan".to_owned()).filter(|name| !["", "0"].contains(&name.trim()));
        let number = text("syscall".to_owned()).and_then(|call| written_to(&call));
        let rank = Some(())
            .filter(|()| !main.uninterruptible())
            .and_then(|()| Rank::parse(text("environ".to_owned())?.as_bytes()));
        let rank = rank.and_then(|rank| rank.global.or(rank.local));
        let link = |number: u8| std::fs::read_link(table.path(pid, &format!("fd/{number}"))).ok();
        let writes_to = number
            .and_then(link)
            .map(|link| link.to_string_lossy().into_owned())
            .filter(|link| link.starts_with("pipe:[") || link.starts_with("/dev/pts/"));
        Some(Self {
            pid,
            rank: rank.and_then(|rank| String::from_utf8(rank).ok()?.parse().ok()),
            worker: process.forked() || process.name == "pt_data_worker",
            name: process.name,
            state: main.state,
            started: process.started,
            age: uptime - process.started as f64 / TICKS,
            cpu_seconds: main.cpu as f64 / TICKS,
            page_faults: main.faults as f64,
            read_bytes: io.map(|io| io.read as f64),
            written_bytes: io.map(|io| io.written as f64),
            waits_in,
            writes_to,
        })
    }

    /// Stopped by a signal or a debugger.
    pub fn stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Its main thread has done nothing since `before`, and sleeps in the same place.
    pub fn stands_since(&self, before: &Self) -> bool {
        let did = |one: &Self| {
            (
                one.cpu_seconds,
                one.page_faults,
                one.read_bytes,
                one.written_bytes,
            )
        };
        (self.pid, self.started, self.state) == (before.pid, before.started, before.state)
            && did(self) == did(before)
            && self.waits_in == before.waits_in
            && self.writes_to == before.writes_to
    }
}
