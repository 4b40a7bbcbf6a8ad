//! What the files under `/proc` say. Pure: text in, facts out; a text that says something else gives nothing.
//!
//! Formats: proc_pid_stat(5), proc_pid_io(5), proc_pid_fdinfo(5), proc_pid_syscall(5), proc_pid_environ(5).

/// Clock ticks in a second: USER_HZ, which is 100 in the interface of every architecture that CUDA runs on.
pub(super) const TICKS: f64 = 100.0;

/// A process in the table, from `stat`; times in clock ticks, those of the whole process summed over its threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    /// The command's name, at most 15 bytes.
    pub(super) name: String,
    /// One letter.
    pub(super) state: char,
    pub(super) parent: u32,
    flags: u64,
    /// Page faults, minor and major.
    pub(super) faults: u64,
    /// CPU time, user and system.
    pub(super) cpu: u64,
    /// CPU time of children that have ended and were waited for, with theirs.
    pub(super) reaped: u64,
    /// When it began, since the machine did.
    pub(super) started: u64,
}

impl Stat {
    /// Reads `stat` of a process or a thread.
    pub(super) fn parse(text: &str) -> Option<Self> {
        // The name may hold blanks and brackets, so it ends at the last one.
        let (head, tail) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        // The manual counts from 1, and the state is its third field.
        let field = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
        // Times of waited-for children are signed there.
        Some(Self {
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: u32::try_from(field(4)?).ok()?,
            flags: field(9)?,
            faults: field(10)? + field(12)?,
            cpu: field(14)? + field(15)?,
            reaped: field(16)? + field(17)?,
            started: field(22)?,
        })
    }

    /// A thread of the kernel (PF_KTHREAD).
    pub(super) fn kernel(&self) -> bool {
        self.flags & 0x0020_0000 != 0
    }

    /// It was forked and has executed nothing since (PF_FORKNOEXEC), so it runs its parent's program.
    pub(super) fn forked(&self) -> bool {
        self.flags & 0x40 != 0
    }

    /// It has ended, and only waits to be waited for.
    pub(super) fn over(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Stopped by a signal or a debugger.
    pub(super) fn stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// In uninterruptible sleep.
    pub(super) fn uninterruptible(&self) -> bool {
        self.state == 'D'
    }
}

/// What `io` counts, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Io {
    /// Got from read calls.
    pub(super) read: u64,
    /// Given to write calls.
    pub(super) written: u64,
    /// Sent to storage.
    pub(super) disk: u64,
}

impl Io {
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(Self {
            read: value(text, "rchar:")?.parse().ok()?,
            written: value(text, "wchar:")?.parse().ok()?,
            disk: value(text, "write_bytes:")?.parse().ok()?,
        })
    }
}

/// An open file, from `fdinfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    /// It may be written to.
    pub(super) writes: bool,
    /// Its inode; told since Linux 5.14.
    pub(super) inode: Option<u64>,
    /// Of a pseudo-terminal's master: the number of its slave under `/dev/pts`.
    pub(super) terminal: Option<u32>,
}

impl Open {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let flags = u32::from_str_radix(value(text, "flags:")?, 8).ok()?;
        Some(Self {
            // O_ACCMODE: reads only, writes only, both. O_PATH has no access at all.
            writes: flags & 0o3 != 0 && flags & 0o10_000_000 == 0,
            inode: value(text, "ino:").and_then(|inode| inode.parse().ok()),
            terminal: value(text, "tty-index:").and_then(|index| index.parse().ok()),
        })
    }
}

/// Which rank a process is, by `RANK` and `LOCAL_RANK` in its environment. No other key is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rank {
    pub(super) global: Option<Vec<u8>>,
    pub(super) local: Option<Vec<u8>>,
}

impl Rank {
    pub(super) fn parse(environ: &[u8]) -> Option<Self> {
        let find = |key: &[u8]| {
            let mut pairs = environ.split(|byte| *byte == 0);
            let value = pairs.find_map(|pair| pair.strip_prefix(key))?;
            (!value.is_empty()).then(|| value.to_owned())
        };
        let rank = Self {
            global: find(b"RANK="),
            local: find(b"LOCAL_RANK="),
        };
        (rank != Self::default()).then_some(rank)
    }
}

/// The system calls write and writev (kernel tables of the two architectures that GPUs are sold with).
const WRITES: [&str; 2] = if cfg!(target_arch = "aarch64") {
    ["64", "66"]
} else {
    ["1", "20"]
};

/// The descriptor that the system call writes to, if it is stdout or stderr; from `syscall`.
pub(super) fn written_to(syscall: &str) -> Option<u8> {
    let mut fields = syscall.split_ascii_whitespace();
    let number = fields.next()?;
    WRITES
        .contains(&number)
        .then(|| match fields.next() {
            Some("0x1") => Some(1),
            Some("0x2") => Some(2),
            Some(_) | None => None,
        })
        .flatten()
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(key))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_the_rest() {
        let text = "71 (a) R 5 (b) D 9 1 1 0 -1 4194368 100 0 7 0 30 12 5 1 20 0 3 0 9944 0 0";
        let stat = Stat::parse(text).expect("a stat");
        assert_eq!((stat.name.as_str(), stat.state), ("a) R 5 (b", 'D'));
        assert_eq!((stat.parent, stat.faults), (9, 107));
        assert_eq!((stat.cpu, stat.reaped, stat.started), (42, 6, 9944));
        assert!(stat.forked() && !stat.kernel() && stat.uninterruptible());
        assert_eq!(Stat::parse("71 (a) R 5"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn a_reader_of_the_log_does_not_write_it() {
        let open =
            |flags: &str| Open::parse(&format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t24\nino:\t3\n"));
        assert_eq!(open("0100000").map(|open| open.writes), Some(false));
        assert_eq!(open("0102001").map(|open| open.writes), Some(true));
        assert_eq!(
            open("0100002").map(|open| (open.writes, open.inode)),
            Some((true, Some(3)))
        );
        assert_eq!(open("012000002").map(|open| open.writes), Some(false));
        let master = Open::parse("pos:\t0\nflags:\t0100002\ntty-index:\t7\n").expect("an fdinfo");
        assert_eq!((master.terminal, master.inode), (Some(7), None));
    }

    #[test]
    fn only_whole_keys_make_a_rank() {
        assert_eq!(Rank::parse(b"NODE_RANK=1\0PATH=RANK=2\0"), None);
        assert_eq!(Rank::parse(b"RANK=\0"), None);
        let rank = Rank::parse(b"A=b\0RANK=12\0LOCAL_RANK=4\0").expect("a rank");
        assert_eq!(rank.global.as_deref(), Some(&b"12"[..]));
        assert_eq!(rank.local.as_deref(), Some(&b"4"[..]));
    }

    #[test]
    fn a_write_to_stdout_is_told_from_others() {
        let [write, writev] = WRITES;
        assert_eq!(
            written_to(&format!("{write} 0x1 0x7f 0x2000 0x0 0x7ff 0x7fe")),
            Some(1)
        );
        assert_eq!(written_to(&format!("{writev} 0x2 0x7f 0x3")), Some(2));
        assert_eq!(written_to(&format!("{write} 0x3 0x7f 0x2000")), None);
        assert_eq!(written_to("202 0x1 0x0"), None);
        assert_eq!(written_to("running"), None);
    }

    #[test]
    fn io_is_read_by_name() {
        let text = "rchar: 10\nwchar: 20\nsyscr: 1\nsyscw: 2\nread_bytes: 3\nwrite_bytes: 40\ncancelled_write_bytes: 5\n";
        let io = Io {
            read: 10,
            written: 20,
            disk: 40,
        };
        assert_eq!(Io::parse(text), Some(io));
        assert_eq!(Io::parse("rchar: 10\n"), None);
    }
}
