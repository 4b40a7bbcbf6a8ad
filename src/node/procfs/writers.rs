//! From a log to the processes whose output it holds: who has it open for writing, and, where that one only passes on
//! what it reads from a pipe or a pseudo-terminal, who writes there; hop by hop.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::people::{Kind, People};
use super::table::{Table, forbidden, slurp};
use super::text::Open;

/// The file of a log. Its path may change (rotation, another mount namespace); this stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    device: u64,
    inode: u64,
    name: OsString,
    /// The user whose file it is.
    pub(super) owner: u32,
}

impl Target {
    pub(super) fn of(log: &Path) -> io::Result<Self> {
        let meta = fs::metadata(log)?;
        let real = fs::canonicalize(log).unwrap_or_else(|_| log.to_owned());
        Ok(Self {
            device: meta.dev(),
            inode: meta.ino(),
            name: real.file_name().unwrap_or_default().to_owned(),
            owner: meta.uid(),
        })
    }

    /// The process has the file open for writing; an error if its open files may not be seen.
    ///
    /// Only a file with the same inode or name is asked for its device: that question goes to the file system, and one
    /// that no longer answers would never come back. Names and inodes of open files are the kernel's own.
    pub(super) fn is_held_by(&self, table: &Table, pid: u32) -> io::Result<bool> {
        let mut buffer = Vec::new();
        for entry in fs::read_dir(table.path(pid, "fd"))? {
            let Ok(entry) = entry else { continue };
            let Ok(link) = fs::read_link(entry.path()) else {
                continue;
            };
            // Sockets, pipes and devices are no logs.
            if !link.is_absolute() || link.starts_with("/dev") || link.starts_with("/proc") {
                continue;
            }
            let number = entry.file_name();
            let info = table.path(pid, "fdinfo").join(number);
            let Some(open) = slurp(&info, &mut buffer)
                .ok()
                .and_then(|text| Open::parse(&text))
            else {
                continue;
            };
            let alike = open.inode.is_none_or(|inode| inode == self.inode)
                || link.file_name() == Some(&self.name);
            if open.writes
                && alike
                && fs::metadata(entry.path())
                    .is_ok_and(|meta| (meta.dev(), meta.ino()) == (self.device, self.inode))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Which of these processes have the file open for writing, and whose open files may not be seen.
pub(super) fn holders(
    table: &Table,
    target: &Target,
    pids: impl Iterator<Item = u32>,
) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let (mut holders, mut hidden) = (BTreeSet::new(), BTreeSet::new());
    for pid in pids {
        match target.is_held_by(table, pid) {
            Ok(true) => _ = holders.insert(pid),
            Ok(false) => {}
            Err(e) if forbidden(&e) => _ = hidden.insert(pid),
            // It has just ended.
            Err(_) => {}
        }
    }
    (holders, hidden)
}

/// Where output really comes from.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    /// The processes that write it first.
    pub(super) pids: BTreeSet<u32>,
    /// A relay reads from somebody who cannot be seen.
    pub(super) lost: bool,
}

/// Walks upstream from the holders of a log.
pub(super) fn origin(table: &Table, people: &mut People, holders: &BTreeSet<u32>) -> Origin {
    let mut origin = Origin::default();
    let mut outputs = None;
    let mut seen: HashSet<u32> = holders.iter().copied().collect();
    let mut next: Vec<u32> = holders.iter().copied().collect();
    while let Some(pid) = next.pop() {
        people.meet(table, &[pid]);
        let Some(kind) = people.get(table, pid).map(|person| person.kind) else {
            continue;
        };
        let inputs = inputs(table, pid, kind);
        let sources = if inputs.is_empty() {
            Vec::new()
        } else {
            sources(
                table,
                pid,
                &inputs,
                outputs.get_or_insert_with(|| all_outputs(table)),
            )
        };
        people.meet(table, &sources);
        // What feeds data to a rank, or commands to a shell, is not where its output comes from.
        let filters = kind == Kind::Program
            && !sources.is_empty()
            && (people.rank(table, pid).is_none()
                || sources
                    .iter()
                    .any(|&source| people.rank(table, source).is_some()));
        if kind == Kind::Relay || filters {
            origin.lost |= sources.is_empty() && !inputs.is_empty();
            next.extend(sources.into_iter().filter(|&source| seen.insert(source)));
        } else {
            origin.pids.insert(pid);
        }
    }
    origin
}

/// The pipe at a process's stdin; of a relay also the slaves of the pseudo-terminals that it serves.
fn inputs(table: &Table, pid: u32, kind: Kind) -> Vec<PathBuf> {
    let mut inputs = Vec::new();
    inputs.extend(
        fs::read_link(table.path(pid, "fd/0"))
            .ok()
            .filter(|link| is_pipe(link)),
    );
    if kind != Kind::Relay {
        return inputs;
    }
    let mut buffer = Vec::new();
    for entry in fs::read_dir(table.path(pid, "fd"))
        .into_iter()
        .flatten()
        .flatten()
    {
        if fs::read_link(entry.path()).is_ok_and(|link| link.ends_with("ptmx")) {
            let info = table.path(pid, "fdinfo").join(entry.file_name());
            let open = slurp(&info, &mut buffer)
                .ok()
                .and_then(|text| Open::parse(&text));
            let terminal = open.and_then(|open| open.terminal);
            inputs.extend(terminal.map(|n| PathBuf::from(format!("/dev/pts/{n}"))));
        }
    }
    inputs
}

/// Who writes to pipes and pseudo-terminals as stdout or stderr.
type Outputs = HashMap<PathBuf, BTreeSet<u32>>;

fn all_outputs(table: &Table) -> Outputs {
    let mut outputs = Outputs::new();
    for pid in table.pids() {
        for number in ["fd/1", "fd/2"] {
            if let Ok(link) = fs::read_link(table.path(pid, number))
                && (is_pipe(&link) || link.starts_with("/dev/pts"))
            {
                outputs.entry(link).or_default().insert(pid);
            }
        }
    }
    outputs
}

/// Who writes to these, except the reader itself. Terminals of other machines' roots have the same names, so only what
/// the reader started counts there.
fn sources(table: &Table, pid: u32, inputs: &[PathBuf], outputs: &Outputs) -> Vec<u32> {
    let mut sources = Vec::new();
    for input in inputs {
        for &source in outputs.get(input).into_iter().flatten() {
            let started = || table.ancestors(source).any(|ancestor| ancestor == pid);
            let trivial = || {
                let name = table.stat(source).map(|stat| stat.name.as_str());
                name.is_none_or(|name| Kind::named(name) == Kind::Trivial)
            };
            if source != pid && (is_pipe(input) || started()) && !trivial() {
                sources.push(source);
            }
        }
    }
    sources
}

fn is_pipe(link: &Path) -> bool {
    link.to_str().is_some_and(|link| link.starts_with("pipe:["))
}
