//! `diagnose` on real processes: what it says of jobs that read, spin, hang, are stopped, blocked or gone, and what it
//! exits with. Here it looks alone; `beside` is with an exporter, `edges` what may not be seen or does not answer.

#![expect(
    clippy::disallowed_methods,
    reason = "the tests start jobs and wait for them"
)]
#![expect(clippy::print_stdout, reason = "a test that cannot run says why")]

#[path = "diagnose/beside.rs"]
mod beside;
#[path = "diagnose/edges.rs"]
mod edges;
#[expect(dead_code, reason = "each test uses a part of it")]
#[path = "e2e/programs.rs"]
mod programs;
#[expect(dead_code, reason = "each test uses a part of it")]
#[path = "processes/stage.rs"]
mod stage;
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use fake_nvml::Fake;
use serde_json::Value;
use stage::{Stage, python, signal};
use support::EXPORTER;

/// A launcher with two ranks.
pub(crate) const LAUNCHER: &str = "
def rank(n):
    env = dict(os.environ, RANK=str(n), LOCAL_RANK=str(n))
    return subprocess.Popen([sys.executable, '-S', '-E', '-u', 'rank.py'], env=env)
ranks = [rank(n) for n in range(2)]
for one in ranks:
    one.wait()
";
/// What rank 0 of a speculators training prints first, and at the beginning of a validation.
pub(crate) const TRAIN: &str = "
if os.environ.get('RANK', '0') == '0':
    print('INFO     Training epoch 1/3 started                    trainer.py:737')
    print('INFO     train/loss=0.039, epoch=0, global_step=4      trainer.py:587')
";
pub(crate) const VALIDATE: &str = "
if os.environ.get('RANK', '0') == '0':
    print('INFO     Validation epoch 1/3 started                  trainer.py:754')
";
/// Minutes become seconds; the table is the product's.
pub(crate) const LIMITS: &str = "
limits:
  train: {lower: 0.5, start: 0.5}
  validation: {lower: 0.5, start: 0.5}
  quiet: {lower: 1.5, start: 2}
  unseen_validation: 3
  work_window: 1
  patience: 1
";

/// What it said.
pub(crate) struct Told {
    pub(crate) code: i32,
    pub(crate) json: Value,
    pub(crate) stderr: String,
}

impl Told {
    /// The one run.
    pub(crate) fn run(&self) -> &Value {
        &self.json["runs"][0]
    }

    /// Exit code, verdict, how sure, what the processes did.
    pub(crate) fn summary(&self) -> (i32, &str, &str, Option<&str>) {
        let word = |name: &str| self.run()[name].as_str();
        let (verdict, sure) = (word("verdict"), word("sure"));
        (
            self.code,
            verdict.unwrap_or_default(),
            sure.unwrap_or_default(),
            word("evidence"),
        )
    }

    /// It is said so: exit code, verdict, how sure, what the processes did.
    #[track_caller]
    pub(crate) fn is(&self, code: i32, verdict: &str, sure: &str, processes: Option<&str>) {
        let right = (code, verdict, sure, processes);
        assert_eq!(self.summary(), right, "{}", self.json);
    }

    /// Whether this witness moved; none if it could not be asked.
    pub(crate) fn moved(&self, witness: &str) -> Option<bool> {
        let all = self.run()["witnesses"].as_array().expect("witnesses");
        let one = all.iter().find(|one| one["witness"] == witness);
        one.expect("one of them")["moved"].as_bool()
    }

    /// The commands that it names.
    pub(crate) fn next(&self) -> String {
        let all = self.run()["next"].as_array().expect("commands");
        let commands = all.iter().map(|one| one["command"].as_str().expect("text"));
        commands.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn why(&self) -> String {
        self.run()["why"].to_string()
    }

    pub(crate) fn pids(&self) -> BTreeSet<u64> {
        let all = self.run()["processes"].as_array().expect("processes");
        all.iter().filter_map(|one| one["pid"].as_u64()).collect()
    }
}

/// Runs `diagnose --json`.
pub(crate) fn diagnose(args: &[&str]) -> Told {
    told(Command::new(EXPORTER).arg("diagnose").args(args))
}

pub(crate) fn told(command: &mut Command) -> Told {
    let output = command
        .arg("--json")
        .env_remove("FAKE_NVML")
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let json = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    let code = output.status.code().expect("an exit code");
    if let Some(told) = json["exit_code"].as_i64() {
        assert_eq!(i64::from(code), told, "{json}");
    }
    Told { code, json, stderr }
}

impl Stage {
    /// Starts a launcher and two ranks that do this, and waits until both are ready.
    pub(crate) fn two(&mut self, body: &str) -> Vec<u32> {
        self.script("rank.py", body);
        self.script("train.py", LAUNCHER);
        self.start("exec python train.py >train.log 2>&1");
        self.ready(2)
    }

    /// Looks at the log without an exporter, for 2 s.
    pub(crate) fn look(&self, args: &[&str]) -> Told {
        let log = self.log().to_string_lossy().into_owned();
        let common = ["--alone", "--log.path", &log, "--wait", "2s"];
        diagnose(&[&common, args].concat())
    }

    /// The same where minutes are seconds.
    pub(crate) fn look_late(&self) -> Told {
        let config = self.limits();
        self.look(&["--config.file", &config])
    }

    pub(crate) fn limits(&self) -> String {
        let path = self.path("limits.yaml");
        fs::write(&path, LIMITS).expect("written");
        path.to_string_lossy().into_owned()
    }
}

fn set(pids: &[u32]) -> BTreeSet<u64> {
    pids.iter().map(|pid| u64::from(*pid)).collect()
}

#[test]
fn a_silent_validation_that_reads_is_idle_and_healthy() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    let pids = stage.two(&format!("{TRAIN}{VALIDATE}read_for_ever()"));
    let mut fake = Fake::install(stage.folder.path()).expect("the fake is built");
    fake.scenario.set("count", 2);
    for (gpu, pid) in pids.iter().enumerate() {
        fake.scenario
            .set(&format!("{gpu}.procs"), format!("{pid}:4294967296"))
            .set(&format!("{gpu}.util"), 0)
            .set(&format!("{gpu}.power_mw"), 70_000);
    }
    fake.scenario.write().expect("written");
    let library = fake.library.to_string_lossy().into_owned();
    let told = stage.look(&["--nvml.library", &library]);
    told.is(0, "validation_idle", "sure", Some("work"));
    assert_eq!(told.pids(), set(&pids));
    let moved =
        ["log_bytes", "steps", "validation", "reads", "gpu_busy"].map(|name| told.moved(name));
    assert_eq!(
        moved,
        [Some(false), Some(false), None, Some(true), Some(false)]
    );
    assert_eq!(told.next(), "", "nothing is to be done");
    assert_eq!(told.stderr, "", "no terminal, no progress line");
    // Its word does not hang on the ceilings: unseen, and at work.
    stage.look_late().is(0, "validating", "sure", Some("work"));
}

#[test]
fn a_deadlock_is_not_told_before_it_is_late_and_then_by_time_alone() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    let pids = stage.two(&format!("{TRAIN}{VALIDATE}hang()"));
    let early = stage.look(&[]);
    early.is(3, "validating", "unsure", Some("still"));
    let late = stage.look_late();
    late.is(1, "hung", "likely", Some("still"));
    assert_eq!(late.pids(), set(&pids));
    for pid in pids {
        let dump = format!("py-spy dump --pid {pid}");
        assert!(late.next().contains(&dump), "{dump}: {}", late.next());
    }
    assert!(
        late.why().contains("a running exporter is surer"),
        "{}",
        late.why()
    );
}

#[test]
fn a_stopped_rank_is_named_and_left_as_it_is() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    let pids = stage.two(&format!("{TRAIN}hang()"));
    signal("STOP", &pids[1].to_string());
    let early = stage.look(&[]);
    early.is(3, "training", "unsure", Some("still"));
    assert!(
        early.why().contains("1 of 2 processes are stopped"),
        "{}",
        early.why()
    );
    let late = stage.look_late();
    late.is(1, "lost_rank", "sure", Some("still"));
    assert!(
        late.next().contains(&format!("kill -CONT {}\n", pids[1])),
        "{}",
        late.next()
    );
    let stat = fs::read_to_string(format!("/proc/{}/stat", pids[1])).expect("it lives");
    assert!(stat.contains(") T "), "nothing was sent to it: {stat}");

    signal("STOP", &pids[0].to_string());
    let all = stage.look_late();
    assert_eq!(all.summary().0, 6, "{}", all.json);
    assert_eq!(all.summary().1, "suspended");
}

#[test]
fn a_spin_proves_nothing_until_three_ceilings_are_over() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    let pid = stage.run(&format!("{TRAIN}ready()\nwhile True: pass"));
    let early = stage.look(&[]);
    early.is(3, "training", "unsure", Some("busy"));
    let dump = format!("py-spy dump --native --pid {pid}");
    assert!(early.next().contains(&dump), "{}", early.next());
    let late = stage.look_late();
    late.is(1, "hung", "likely", Some("busy"));
}

#[test]
fn a_blocked_print_is_seen_whatever_the_clocks_say() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    let fill =
        "ready()\nwhile not os.path.exists('go'): time.sleep(0.01)\nwhile True: print('x' * 1000)";
    stage.script("train.py", &format!("{TRAIN}{fill}"));
    stage.start("python train.py | tee train.log >/dev/null");
    let pids = stage.ready(1);
    stage::wait(
        || {
            fs::read_to_string(stage.log())
                .ok()
                .filter(|log| log.contains("global_step"))
        },
        || "the log".to_owned(),
    );
    signal("STOP", &stage.named("tee").to_string());
    fs::write(stage.path("go"), "").expect("a file");
    let blocked = || {
        let wchan = fs::read_to_string(format!("/proc/{}/wchan", pids[0]));
        wchan.ok().filter(|wchan| wchan.contains("pipe"))
    };
    stage::wait(blocked, || "a full pipe".to_owned());
    let early = stage.look(&[]);
    early.is(3, "training", "unsure", Some("still"));
    let late = stage.look_late();
    late.is(1, "hung", "likely", Some("still"));
    for told in [early, late] {
        assert!(
            told.why().contains("stood in a write to stdout"),
            "{}",
            told.why()
        );
        assert!(told.next().contains("-lname 'pipe:"), "{}", told.next());
        assert_eq!(told.pids(), set(&pids));
    }
    // From the process through the pipe and `tee`, which is stopped, to the log.
    let by_pid = diagnose(&["--alone", "--wait", "1s", "--pid", &pids[0].to_string()]);
    assert_eq!(by_pid.run()["log"], stage.log().to_string_lossy().as_ref());
    assert_eq!(by_pid.code, 3, "{}", by_pid.json);
}

#[test]
fn who_is_gone_is_told_from_who_was_never_there() {
    if python().is_none() {
        return;
    }
    // It ends while it is looked at.
    let mut stage = Stage::new();
    let pid = stage.run(&format!("{TRAIN}hang()"));
    let log = stage.log().to_string_lossy().into_owned();
    let looks = Command::new(EXPORTER)
        .args([
            "diagnose",
            "--alone",
            "--json",
            "--wait",
            "6s",
            "--log.path",
            &log,
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    stage::wait(
        || opened(looks.id(), &log).then_some(()),
        || "the first look".to_owned(),
    );
    std::thread::sleep(std::time::Duration::from_secs(2));
    signal("KILL", &pid.to_string());
    let output = looks.wait_with_output().expect("it ends");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(5), "{json}");
    assert_eq!(json["runs"][0]["verdict"], "vanished");
    assert!(json["runs"][0]["next"].to_string().contains("oom-kill"));

    // It had ended before: then this node cannot tell.
    let gone = stage.look(&[]);
    gone.is(4, "not_judged", "likely", None);

    // It had ended with a word.
    let mut log = fs::read_to_string(stage.log()).expect("a log");
    log += "INFO     Validation epoch 3/3 completed    trainer.py:756\n";
    fs::write(stage.log(), log).expect("written");
    let over = stage.look(&[]);
    over.is(5, "finished", "sure", None);
    assert!(
        over.json["seconds"].as_f64() < Some(2.0),
        "there is nothing to wait for"
    );
}

/// The program has opened this file.
fn opened(pid: u32, path: &str) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|link| link.to_string_lossy() == path)
}

#[test]
fn a_log_that_is_older_than_its_processes_convicts_nobody() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    stage.run(&format!("{TRAIN}hang()"));
    let old = Command::new("touch")
        .args(["-d", "3 hours ago"])
        .arg(stage.log())
        .status();
    assert!(old.expect("touch").success());
    let told = stage.look(&[]);
    told.is(3, "hung", "unsure", Some("still"));
    assert!(
        told.why().contains("began after the log's last word"),
        "{}",
        told.why()
    );
}
