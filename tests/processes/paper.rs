//! What this machine cannot be made to do for a test, on a `/proc` of plain files: a frozen control group, a read that
//! never returns, a pod in which everybody has a rank, files that may not be read.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use training_exporter::node::process::Processes;
use training_exporter::node::procfs::ProcFs;

/// A `/proc` of plain files, with one log beside it.
struct Paper {
    folder: tempfile::TempDir,
    source: ProcFs,
}

/// PF_FORKNOEXEC.
const FORKED: u32 = 0x40;

impl Paper {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("train.log"), "").expect("a log");
        let source = ProcFs::new(folder.path().join("proc"));
        let paper = Self { folder, source };
        paper.process(1, 0, "systemd", 0, "");
        paper
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("train.log")
    }

    fn file(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// A process that sleeps.
    fn process(&self, pid: u32, parent: u32, name: &str, flags: u32, environ: &str) {
        self.state(pid, parent, name, 'S', flags);
        self.file(&format!("proc/{pid}/environ"), environ.replace(' ', "\0"));
        self.file(&format!("proc/{pid}/cmdline"), "python\0train.py\0");
        self.file(
            &format!("proc/{pid}/syscall"),
            "202 0x7f 0x80 0x0 0x0 0x0 0x0 0x7ffe 0x7f01\n",
        );
        let io = "rchar: 100\nwchar: 10\nread_bytes: 0\nwrite_bytes: 4096\n";
        self.file(&format!("proc/{pid}/io"), io);
        self.file(&format!("proc/{pid}/task/{pid}/io"), io);
        fs::create_dir_all(self.folder.path().join(format!("proc/{pid}/fd"))).expect("a folder");
    }

    fn state(&self, pid: u32, parent: u32, name: &str, state: char, flags: u32) {
        let stat = format!(
            "{pid} ({name}) {state} {parent} {pid} {pid} 0 -1 {flags} 500 0 2 0 150 50 0 0 20 0 1 0 {} 0 0",
            1000 + pid
        );
        self.file(&format!("proc/{pid}/stat"), &stat);
        self.file(&format!("proc/{pid}/task/{pid}/stat"), &stat);
    }

    /// The process has the log as its stdout.
    fn writes(&self, pid: u32) {
        self.file(
            &format!("proc/{pid}/fdinfo/1"),
            "pos:\t0\nflags:\t0102001\nmnt_id:\t24\n",
        );
        let fd = self.folder.path().join(format!("proc/{pid}/fd/1"));
        symlink(self.log(), fd).expect("a link");
    }

    fn look(&mut self) -> training_exporter::node::process::Seen {
        let log = self.log();
        self.source.read(&log).expect("a look")
    }
}

#[test]
fn a_frozen_group_is_stopped_though_its_processes_sleep() {
    let mut paper = Paper::new();
    for (pid, group) in [(10, "job"), (11, "other")] {
        paper.process(pid, 1, "python", 0, &format!("RANK={pid}"));
        paper.file(&format!("proc/{pid}/cgroup"), format!("0::/{group}\n"));
        paper.writes(pid);
    }
    paper.file("sys/fs/cgroup/job/cgroup.events", "populated 1\nfrozen 0\n");
    assert_eq!(paper.look().counters.stopped, 0);
    paper.file("sys/fs/cgroup/job/cgroup.events", "populated 1\nfrozen 1\n");
    let counters = paper.look().counters;
    assert_eq!((counters.stopped, counters.processes), (1, 2));
}

#[test]
fn a_read_that_never_returns_is_in_the_same_system_call() {
    let mut paper = Paper::new();
    paper.process(10, 1, "python", 0, "");
    paper.writes(10);
    paper.state(10, 1, "python", 'D', 0);
    let stuck = |paper: &mut Paper| {
        let counters = paper.look().counters;
        (counters.uninterruptible, counters.same_syscall)
    };
    assert_eq!(stuck(&mut paper), (1, Some(0)));
    assert_eq!(stuck(&mut paper), (1, Some(1)));
    // Another read of a slow store: as deep asleep, but not the same.
    paper.file(
        "proc/10/syscall",
        "0 0x3 0x7f 0x1000 0x0 0x0 0x0 0x7ffe 0x7f01\n",
    );
    assert_eq!(stuck(&mut paper), (1, Some(0)));
    // The same call on the same buffer, which has returned in between.
    assert_eq!(stuck(&mut paper), (1, Some(1)));
    paper.file(
        "proc/10/task/10/io",
        "rchar: 4196\nwchar: 10\nread_bytes: 0\nwrite_bytes: 4096\n",
    );
    assert_eq!(stuck(&mut paper), (1, Some(0)));
}

#[test]
fn in_a_pod_everybody_has_a_rank_and_only_ranks_are_ranks() {
    let mut paper = Paper::new();
    let all = [
        (10, 1, "bash", 0, "RANK=1"),
        (11, 10, "python", 0, "RANK=1"), // torchrun, by a name that does not tell
        (20, 11, "python", 0, "RANK=2 LOCAL_RANK=0"),
        (21, 11, "python", 0, "RANK=3 LOCAL_RANK=1"),
        (30, 20, "pt_data_worker", FORKED, "RANK=2 LOCAL_RANK=0"),
        (31, 21, "python", FORKED, "RANK=3 LOCAL_RANK=1"),
        (40, 20, "wandb-service", 0, "RANK=2 LOCAL_RANK=0"),
        (41, 20, "nvidia-smi", 0, "RANK=2 LOCAL_RANK=0"),
        (42, 21, "cc1plus", 0, "RANK=3 LOCAL_RANK=1"),
        (50, 1, "python", 0, "RANK=9"), // of another job
    ];
    for (pid, parent, name, flags, environ) in all {
        paper.process(pid, parent, name, flags, environ);
    }
    paper.writes(10);
    assert_eq!(paper.look().pids, [20, 21, 30, 31]);
}

#[test]
fn a_single_training_has_no_rank_and_a_shell_that_is_left_is_none() {
    let mut paper = Paper::new();
    paper.process(10, 1, "bash", 0, "");
    paper.process(11, 10, "python", 0, "");
    paper.process(12, 10, "sleep", 0, "");
    for pid in [10, 11, 12] {
        paper.writes(pid);
    }
    assert_eq!(paper.look().pids, [11]);
    fs::remove_dir_all(paper.folder.path().join("proc/11")).expect("an end");
    let seen = paper.look();
    assert!(seen.pids.is_empty());
    assert_eq!(seen.counters.page_faults, 502.0);
    // Where there never was anybody else, the shell itself is the job.
    let mut script = Paper::new();
    script.process(10, 1, "bash", 0, "");
    script.writes(10);
    assert_eq!(
        (script.look().pids, script.look().pids),
        (vec![10], vec![10])
    );
}

#[test]
fn other_ranks_begin_from_nothing_and_late_ones_bring_no_past() {
    let mut paper = Paper::new();
    paper.process(10, 1, "python", 0, "RANK=0");
    paper.process(11, 1, "python", 0, "RANK=1");
    paper.writes(10);
    assert_eq!(paper.look().counters.page_faults, 502.0);
    // It was there before: what it did then is no work of now.
    paper.writes(11);
    assert_eq!(paper.look().counters.page_faults, 502.0);
    for pid in [10, 11] {
        fs::remove_dir_all(paper.folder.path().join(format!("proc/{pid}"))).expect("an end");
    }
    assert_eq!(paper.look().pids, Vec::<u32>::new());
    paper.process(60, 1, "python", 0, "RANK=0");
    paper.writes(60);
    let seen = paper.look();
    assert_eq!((seen.pids, seen.counters.page_faults), (vec![60], 502.0));
}

#[test]
fn what_may_not_be_read_is_absent() {
    let mut paper = Paper::new();
    paper.process(10, 1, "python", 0, "");
    paper.writes(10);
    for file in ["task/10/io", "syscall"] {
        let path = paper.folder.path().join("proc/10").join(file);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("permissions");
        if fs::read(&path).is_ok() {
            println!("skipped: root may read everything");
            return;
        }
    }
    let counters = paper.look().counters;
    assert!(counters.limited() && counters.page_faults > 0.0);
    assert_eq!(counters.read_bytes, None);
    assert_eq!(counters.disk_written_bytes, None);
    assert_eq!(counters.stdout_blocked, None);
    assert_eq!(counters.same_syscall, None);
}

#[test]
fn hidden_processes_are_told() {
    let mut paper = Paper::new();
    let log = paper.log();
    assert!(paper.look().pids.is_empty());
    fs::remove_dir_all(paper.folder.path().join("proc/1")).expect("hidden");
    let told = paper.source.read(&log).expect_err("nobody can be seen");
    assert!(told.to_string().contains("hidepid"), "{told}");
    fs::remove_dir_all(paper.folder.path().join("proc")).expect("no /proc");
    assert!(paper.source.read(&log).is_err());
}
