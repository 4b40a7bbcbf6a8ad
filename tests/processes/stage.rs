//! Real jobs for the tests: Python scripts that are started by a shell, watched by the product, and always ended.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use training_exporter::node::process::window::{Evidence, Window};
use training_exporter::node::process::{Counters, Processes, Seen};
use training_exporter::node::procfs::ProcFs;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(40);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// The window of the tests, in seconds: the thresholds are those of the product.
pub(crate) const WINDOW: f64 = 1.5;

/// What every script begins with: it ends by itself if the test cannot end it, and `ready` tells that it has begun what
/// it does for ever.
const PRELUDE: &str = "\
import os, signal, subprocess, sys, threading, time
signal.alarm(120)
def ready(name=None):
    path = os.path.join(os.environ['STAGE'], 'ready.%s' % (name or os.getpid()))
    with open(path + '.new', 'w') as file:
        file.write(str(os.getpid()))
    os.rename(path + '.new', path)
def read_for_ever():
    with open('data', 'wb') as file:
        file.write(bytes(1 << 18))
    ready()
    while True:
        with open('data', 'rb', buffering=0) as file:
            file.read()
        time.sleep(0.02)
def hang():
    lock = threading.Lock()
    lock.acquire()
    ready()
    lock.acquire()
";

/// The interpreter itself, not a script that looks for it; none where there is no Python 3.
pub(crate) fn python() -> Option<&'static str> {
    static PYTHON: OnceLock<Option<String>> = OnceLock::new();
    let found = PYTHON.get_or_init(|| {
        let asked = Command::new("python3")
            .args(["-c", "import sys; print(sys.executable)"])
            .output();
        let answer = asked.ok().filter(|answer| answer.status.success())?;
        Some(String::from_utf8(answer.stdout).ok()?.trim().to_owned())
    });
    if found.is_none() {
        println!("skipped: no python3 here");
    }
    found.as_deref()
}

/// This program can be called.
pub(crate) fn has(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        println!("skipped: no {program} here");
    }
    found
}

/// A job that runs, and its folder. It ends with this.
pub(crate) struct Stage {
    pub(crate) folder: tempfile::TempDir,
    children: Vec<Child>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self {
            folder,
            children: Vec::new(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path("train.log")
    }

    /// Writes a script of this name.
    pub(crate) fn script(&self, name: &str, body: &str) {
        fs::write(self.path(name), format!("{PRELUDE}{body}")).expect("a script");
    }

    /// Starts a shell command in the folder; `python` in it is the interpreter.
    pub(crate) fn start(&mut self, command: &str) {
        let python = python().expect("asked before");
        let command = command.replace("python", &format!("{python} -S -E -u"));
        let child = Command::new("sh")
            .args(["-c", &command])
            .current_dir(self.folder.path())
            .env_remove("RANK")
            .env_remove("LOCAL_RANK")
            .env("STAGE", self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("a shell");
        self.children.push(child);
    }

    /// Starts a script with its output in the log, and waits until it is ready.
    pub(crate) fn run(&mut self, body: &str) -> u32 {
        self.script("train.py", body);
        self.start("exec python train.py >train.log 2>&1");
        self.ready(1)[0]
    }

    /// Waits until so many scripts are ready: their process ids.
    pub(crate) fn ready(&self, count: usize) -> Vec<u32> {
        wait(
            || {
                let files = fs::read_dir(self.folder.path()).expect("the folder");
                let ready = files.flatten().filter(|file| {
                    let name = file.file_name().to_string_lossy().into_owned();
                    name.starts_with("ready.") && !name.ends_with(".new")
                });
                let pids: BTreeSet<u32> = ready
                    .filter_map(|file| fs::read_to_string(file.path()).ok()?.parse().ok())
                    .collect();
                (pids.len() == count).then(|| pids.into_iter().collect())
            },
            || format!("{count} scripts in {:?}", fs::read_to_string(self.log())),
        )
    }

    /// The process of this name, below this test.
    pub(crate) fn named(&self, name: &str) -> u32 {
        let group = self.children[0].id();
        wait(
            || {
                let all = fs::read_dir("/proc").expect("/proc").flatten();
                all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
                    .find(|pid| {
                        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
                        let stat = stat.unwrap_or_default();
                        let mut fields = stat.rsplit(')').next().unwrap_or("").split(' ');
                        stat.contains(&format!("({name})"))
                            && fields.nth(3) == Some(&group.to_string())
                    })
            },
            || name.to_owned(),
        )
    }

    /// Ends the job, as Ctrl-C would not: nobody can stay.
    pub(crate) fn end(&mut self) {
        for child in &mut self.children {
            signal("KILL", &format!("-{}", child.id()));
            child.wait().expect("a child");
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sends a signal to a process.
pub(crate) fn signal(name: &str, to: &str) {
    Command::new("kill")
        .args(["-s", name, "--", to])
        .stderr(Stdio::null())
        .status()
        .expect("kill");
}

/// Waits for something, and says what did not come.
pub(crate) fn wait<T>(mut found: impl FnMut() -> Option<T>, what: impl FnOnce() -> String) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "did not come: {}", what());
        thread::sleep(PAUSE);
    }
}

/// Looks at the writers of a log until it is seen what must be seen.
pub(crate) fn until(source: &mut ProcFs, log: &Path, right: impl Fn(&Seen) -> bool) -> Seen {
    let last = RefCell::new(None);
    wait(
        || {
            let seen = source.read(log).expect("a look");
            let found = right(&seen).then(|| seen.clone());
            *last.borrow_mut() = Some(seen);
            found
        },
        || format!("{last:?}"),
    )
}

/// What each of the windows of the next seconds shows, and the last look.
pub(crate) fn watch(log: &Path) -> (Vec<Evidence>, Seen) {
    let mut source = ProcFs::default();
    let mut window = Window::new(WINDOW, 1.0);
    let began = Instant::now();
    let mut evidence = Vec::new();
    loop {
        let seen = source.read(log).expect("a look");
        let at = began.elapsed().as_secs_f64();
        let said = window.look(at, seen.counters);
        evidence.extend(said);
        if at > 2.0 * WINDOW && evidence.len() > 5 {
            return (evidence, seen);
        }
        assert!(began.elapsed() < PATIENCE);
        thread::sleep(PAUSE);
    }
}

/// No sum of the later look is below that of the earlier one.
pub(crate) fn monotone(before: &Counters, after: &Counters) -> bool {
    let sums = |c: &Counters| {
        [
            Some(c.main_cpu_seconds),
            Some(c.page_faults),
            c.all_cpu_seconds,
            c.read_bytes,
            c.written_bytes,
            c.disk_written_bytes,
            c.child_cpu_seconds,
        ]
    };
    let (before, after) = (sums(before), sums(after));
    before
        .iter()
        .zip(after)
        .all(|(before, after)| *before <= after)
}
