//! The NVML worker process: a driver that never answers costs a reading, and neither a thread of ours nor the port.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use training_exporter::node::gpu::{Gpu, Gpus};
use training_exporter::run::worker::{NvmlWorker, Patience};

use super::node::{Node, TWO};

const PROGRAM: &str = env!("CARGO_BIN_EXE_training-exporter");
const HANG: &str = "0.hang.nvmlDeviceGetPowerUsage";

/// The exporter's, but shorter: a worker looks each second, so a frame is 1 s old at most, and a machine may be busy.
const PATIENCE: Patience = Patience {
    first: Duration::from_millis(1_500),
    fresh: Duration::from_millis(2_500),
    silent: Duration::from_secs(4),
    pause: Duration::from_millis(100),
    longest_pause: Duration::from_millis(400),
    abandoned: 3,
    kill: true,
};

impl Node {
    fn worker(&self) -> NvmlWorker {
        NvmlWorker::of(PROGRAM.into(), Some(&self.fake.library), PATIENCE)
    }
}

/// Reads four times a second until `wanted`, at most for 30 s.
fn until<T>(
    worker: &mut NvmlWorker,
    mut wanted: impl FnMut(&mut NvmlWorker, Result<Vec<Gpu>, String>) -> Option<T>,
) -> T {
    let began = Instant::now();
    loop {
        let read = worker.read().map_err(|e| e.to_string());
        let last = format!("{read:?}");
        if let Some(found) = wanted(worker, read) {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "still {last}");
        sleep(Duration::from_millis(250));
    }
}

fn lives(pid: u32) -> bool {
    // A zombie has no command line.
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn kill(pid: u32) {
    let status = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(status.expect("kill").success());
}

/// A program that is no exporter.
fn script(folder: &Path, body: &str) -> PathBuf {
    let path = folder.join("program");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn the_worker_reads_what_the_process_itself_reads() {
    let mut node = Node::new(TWO);
    let mut worker = node.worker();
    let gpus = until(&mut worker, |_, read| read.ok());
    assert_eq!(gpus[0], node.look(0.0)[0]);
    assert_eq!(gpus.len(), 2);
    assert_eq!(worker.blocked_seconds(), Some(0.0));
    let pid = worker.pid().expect("it runs");
    drop(worker);
    let began = Instant::now();
    while lives(pid) {
        assert!(began.elapsed() < Duration::from_secs(10), "it ends with us");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn no_library_is_told_by_a_worker_that_lives() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("none.so");
    let mut worker = NvmlWorker::of(PROGRAM.into(), Some(&library), PATIENCE);
    until(&mut worker, |_, read| {
        read.err()
            .filter(|why| why.contains("none.so: cannot open"))
    });
    assert_eq!(worker.blocked_seconds(), Some(0.0));
}

#[test]
fn a_call_that_never_returns_costs_the_reading_and_then_the_worker() {
    let mut node = Node::new(&[]);
    let mut worker = node.worker();
    until(&mut worker, |_, read| read.ok());
    let first = worker.pid();
    node.set(&[(HANG, "forever")]);
    let began = Instant::now();
    let why = until(&mut worker, |_, read| read.err());
    assert!(began.elapsed() < Duration::from_secs(8));
    assert!(why.starts_with("the driver has not answered for "), "{why}");
    assert!(worker.blocked_seconds() > Some(2.0));
    // Another is started, and hangs as well; each reading returns at once.
    let second = until(&mut worker, |worker, read| {
        assert!(read.is_err());
        worker.pid().filter(|pid| Some(*pid) != first)
    });
    let mut slowest = Duration::ZERO;
    while worker.pid().is_some() {
        let began = Instant::now();
        assert!(worker.read().is_err());
        slowest = slowest.max(began.elapsed());
        sleep(Duration::from_millis(50));
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    assert!(
        worker.blocked_seconds() > Some(4.0),
        "since the last answer"
    );
    // The driver wakes up.
    node.set(&[(HANG, "default")]);
    let gpus = until(&mut worker, |_, read| read.ok());
    assert!(gpus[0].power_watts.is_some());
    assert_eq!(worker.blocked_seconds(), Some(0.0));
    assert_eq!(worker.abandoned(), 0, "those that could be killed are gone");
    assert!(!lives(first.unwrap()) && !lives(second));
}

#[test]
fn at_most_three_are_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    // Deaf to the end of its stdin, silent, and not killed: like a process that sleeps in the driver.
    let started = folder.path().join("started");
    let program = script(
        folder.path(),
        &format!("echo $$ >> {}; exec sleep 600", started.display()),
    );
    let patience = Patience {
        first: Duration::from_millis(10),
        fresh: Duration::from_millis(50),
        silent: Duration::from_millis(200),
        pause: Duration::from_millis(50),
        longest_pause: Duration::from_millis(100),
        kill: false,
        ..PATIENCE
    };
    let mut worker = NvmlWorker::of(program, None, patience);
    until(&mut worker, |worker, _| {
        (worker.abandoned() == 3).then_some(())
    });
    for _ in 0..8 {
        let why = worker.read().unwrap_err().to_string();
        assert!(why.ends_with("; 3 of our workers hang in it"), "{why}");
        sleep(Duration::from_millis(100));
    }
    let pids = || fs::read_to_string(&started).unwrap();
    assert_eq!(pids().lines().count(), 3);
    // One of them ends: there is room again.
    kill(pids().lines().next().unwrap().parse().unwrap());
    until(&mut worker, |_, _| {
        (pids().lines().count() == 4).then_some(())
    });
    for pid in pids().lines().skip(1) {
        kill(pid.parse().unwrap());
    }
}

#[test]
fn a_worker_that_was_killed_is_replaced_and_counters_go_on() {
    let mut node = Node::new(&[("0.util", "100"), ("0.energy_mj", "1000000")]);
    let mut worker = node.worker();
    until(&mut worker, |_, read| read.ok());
    sleep(Duration::from_millis(700));
    node.set(&[("0.xid", "1:79")]);
    let counts = |gpu: &Gpu, wanted| gpu.xids.get(&79).is_some_and(|xid| xid.count == wanted);
    let reading = |worker: &mut NvmlWorker, wanted| {
        until(worker, |_, read| {
            let gpu = read.ok()?.remove(0);
            counts(&gpu, wanted).then_some(gpu)
        })
    };
    let before = reading(&mut worker, 1);
    let pid = worker.pid().unwrap();
    kill(pid);
    let why = until(&mut worker, |_, read| read.err());
    assert!(why.starts_with("the NVML worker ended"), "{why}");
    until(&mut worker, |_, read| read.ok());
    assert_ne!(worker.pid(), Some(pid));
    sleep(Duration::from_millis(700));
    node.set(&[("0.xid", "1:79,2:79")]);
    let after = reading(&mut worker, 2);
    assert!(after.energy_joules > before.energy_joules);
    assert!(after.busy_seconds > before.busy_seconds);
    assert!(!lives(pid) && worker.abandoned() == 0);
}

#[test]
fn a_program_that_is_no_worker_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for (body, told) in [
        ("exit 7", "the NVML worker ended"),
        ("echo hello; exec sleep 600", "the NVML worker ended"),
        ("echo '{\"error\":\"bad day\"}'; exec sleep 5", "bad day"),
    ] {
        let mut worker = NvmlWorker::of(script(folder.path(), body), None, PATIENCE);
        let why = until(&mut worker, |_, read| read.err());
        assert!(why.starts_with(told), "{body}: {why}");
    }
    let mut worker = NvmlWorker::of(folder.path().join("none"), None, PATIENCE);
    let why = worker.read().unwrap_err().to_string();
    assert!(why.starts_with("no NVML worker can be started: "), "{why}");
    assert_eq!(worker.blocked_seconds(), None);
}

/// Runs this test once more as a process that holds a port while its worker hangs, and kills that.
#[test]
fn a_killed_exporter_frees_its_port_and_its_worker_ends() {
    if let Some(folder) = std::env::var_os("TEST_EXPORTER_FOLDER") {
        let folder = PathBuf::from(folder);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let library = folder.join("libnvidia-ml.so.1");
        let mut worker = NvmlWorker::of(PROGRAM.into(), Some(&library), PATIENCE);
        until(&mut worker, |_, read| read.ok());
        let text = format!(
            "{} {}",
            listener.local_addr().unwrap(),
            worker.pid().unwrap()
        );
        fs::write(folder.join("tmp"), text).unwrap();
        fs::rename(folder.join("tmp"), folder.join("facts")).unwrap();
        sleep(Duration::from_secs(60));
        return;
    }
    let mut node = Node::new(&[]);
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "worker::a_killed_exporter_frees_its_port_and_its_worker_ends",
        ])
        .env("TEST_EXPORTER_FOLDER", node.folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let facts = loop {
        if let Ok(text) = fs::read_to_string(node.folder.path().join("facts")) {
            break text;
        }
        assert!(began.elapsed() < Duration::from_secs(30));
        sleep(Duration::from_millis(50));
    };
    let (address, pid) = facts.split_once(' ').unwrap();
    let pid = pid.parse().unwrap();
    node.set(&[(HANG, "forever")]);
    sleep(Duration::from_millis(1_500));
    assert!(lives(pid));
    parent.kill().unwrap();
    parent.wait().unwrap();
    TcpListener::bind(address).expect("the port is free at once");
    let began = Instant::now();
    while lives(pid) {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "it ends with its parent"
        );
        sleep(Duration::from_millis(20));
    }
}
