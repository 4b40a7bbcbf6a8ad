//! The processes of the node at one moment: who they are and whose children.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::text::Stat;

/// Linux' numbers for "too many open files", of this process and of the system.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// A process for good: its id comes again, its id and beginning do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id {
    pub(super) pid: u32,
    /// In clock ticks since the machine began.
    pub(super) started: u64,
}

/// The live processes.
#[derive(Debug, Default)]
pub(super) struct Table {
    root: PathBuf,
    stats: BTreeMap<u32, Stat>,
    children: HashMap<u32, Vec<u32>>,
    /// Threads of the kernel, which are many and never change: not read again each time.
    kernel: HashSet<u32>,
}

impl Table {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            ..Self::default()
        }
    }

    /// Reads all processes anew; `thoroughly` also those that were threads of the kernel. A process that vanishes
    /// meanwhile was not there.
    pub(super) fn take(&mut self, thoroughly: bool) -> anyhow::Result<()> {
        if thoroughly {
            self.kernel.clear();
        }
        self.stats.clear();
        self.children.clear();
        let entries = fs::read_dir(&self.root)
            .with_context(|| format!("no processes can be seen in {}", self.root.display()))?;
        let own = std::process::id();
        let mut text = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            if pid == own || self.kernel.contains(&pid) {
                continue;
            }
            let stat = match slurp(&self.path(pid, "stat"), &mut text) {
                Ok(text) => Stat::parse(&text),
                // Our own want of files must not make others vanish.
                Err(e) if matches!(e.raw_os_error(), Some(EMFILE | ENFILE)) => {
                    return Err(e)
                        .context("the exporter has no file left to look at processes with");
                }
                Err(_) => None,
            };
            let Some(stat) = stat else { continue };
            if stat.kernel() {
                self.kernel.insert(pid);
            } else if !stat.over() {
                self.children.entry(stat.parent).or_default().push(pid);
                self.stats.insert(pid, stat);
            }
        }
        Ok(())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// A file of a process.
    pub(super) fn path(&self, pid: u32, file: &str) -> PathBuf {
        self.root.join(format!("{pid}/{file}"))
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.stats.keys().copied()
    }

    pub(super) fn stat(&self, pid: u32) -> Option<&Stat> {
        self.stats.get(&pid)
    }

    pub(super) fn id(&self, pid: u32) -> Option<Id> {
        let started = self.stats.get(&pid)?.started;
        Some(Id { pid, started })
    }

    /// This very process lives.
    pub(super) fn has(&self, id: Id) -> bool {
        self.id(id.pid) == Some(id)
    }

    /// When the youngest process began.
    pub(super) fn youngest(&self) -> Option<u64> {
        self.stats.values().map(|stat| stat.started).max()
    }

    pub(super) fn children(&self, pid: u32) -> &[u32] {
        self.children.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// The processes and all their descendants, each once.
    pub(super) fn with_descendants(&self, pids: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let mut all: Vec<u32> = Vec::new();
        let mut seen = HashSet::new();
        let mut next: Vec<u32> = pids.into_iter().collect();
        while let Some(pid) = next.pop() {
            if seen.insert(pid) {
                all.push(pid);
                next.extend(self.children(pid));
            }
        }
        all
    }

    /// The process's parent, that one's parent, and so on.
    pub(super) fn ancestors(&self, pid: u32) -> impl Iterator<Item = u32> + '_ {
        let parent = |pid: &u32| {
            let parent = self.stats.get(pid)?.parent;
            self.stats.contains_key(&parent).then_some(parent)
        };
        // Process ids taken at different moments could close a ring.
        std::iter::successors(parent(&pid), parent).take(self.stats.len())
    }
}

/// The text of a small file, by as few calls as can be: the files under `/proc` have no size to ask for.
pub(super) fn slurp<'a>(path: &Path, buffer: &'a mut Vec<u8>) -> io::Result<Cow<'a, str>> {
    let mut file = File::open(path)?;
    let mut filled = 0;
    loop {
        if buffer.len() - filled < 512 {
            buffer.resize(buffer.len().max(2048) * 2, 0);
        }
        match file.read(&mut buffer[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(String::from_utf8_lossy(&buffer[..filled]))
}

/// The file is there, but this user may not see it.
pub(super) fn forbidden(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}
