//! What may not be seen, does not answer, or is not there; what a terminal shows, and what may not steer it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fake_nvml::Fake;
use training_exporter::cli::diagnose::BOUND;

use super::stage::{Stage, has, python};
use super::support::EXPORTER;
use super::{TRAIN, diagnose, told};

#[test]
fn without_the_permission_it_says_so_and_names_the_way_out() {
    if python().is_none() || !has("setpriv") {
        return;
    }
    let mut stage = Stage::new();
    let pid = stage.run(&format!("{TRAIN}hang()"));
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
    };
    let program = stage.path("training-exporter");
    fs::copy(EXPORTER, &program).expect("a copy");
    for (path, mode) in [
        (stage.folder.path(), 0o755),
        (&program, 0o755),
        (&stage.log(), 0o644),
    ] {
        open(path, mode);
    }
    let as_nobody = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program)
            .args(["diagnose", "--alone", "--wait", "1s"])
            .args(args);
        told(&mut command)
    };
    let log = stage.log().to_string_lossy().into_owned();
    let asked = as_nobody(&["--log.path", &log]);
    if asked.stderr.contains("setpriv:") {
        println!("skipped: only root can become nobody");
        return;
    }
    asked.is(3, "not_judged", "unsure", None);
    assert!(asked.why().contains("CAP_SYS_PTRACE"), "{}", asked.why());
    assert!(
        asked.run()["headline"]
            .to_string()
            .contains("may not be seen")
    );
    assert!(
        asked
            .next()
            .contains(&format!("sudo training-exporter diagnose --log.path {log}"))
    );
    assert_eq!(asked.moved("log_bytes"), Some(false), "its log may be read");
    let by_pid = as_nobody(&["--pid", &pid.to_string()]);
    assert_eq!(by_pid.code, 2);
    assert!(
        by_pid.stderr.contains("CAP_SYS_PTRACE"),
        "{}",
        by_pid.stderr
    );
    // Not even the log.
    open(&stage.log(), 0o600);
    let blind = as_nobody(&["--log.path", &log]);
    assert_eq!(blind.code, 3, "{}", blind.json);
    assert!(blind.why().contains("Permission denied"), "{}", blind.why());
}

#[test]
fn a_file_system_that_never_answers_costs_the_bound_and_no_more() {
    if python().is_none() || !has("unshare") {
        return;
    }
    let stage = Stage::new();
    fs::create_dir(stage.path("dead")).expect("a folder");
    // A FUSE file system whose server never says a word, in a mount namespace of its own.
    let mount = "
import ctypes, os, signal, subprocess, sys
signal.alarm(100)
device = os.open('/dev/fuse', os.O_RDWR)
options = b'fd=%d,rootmode=40000,user_id=0,group_id=0' % device
if ctypes.CDLL(None).mount(b'dead', b'dead', b'fuse', 0, options):
    sys.exit(77)
looks = subprocess.Popen(sys.argv[1:])
sys.exit(looks.wait())
";
    fs::write(stage.path("mount.py"), mount).expect("written");
    let began = Instant::now();
    let output = Command::new("unshare")
        .args([
            "-m",
            python().expect("asked before"),
            "-E",
            "mount.py",
            EXPORTER,
        ])
        .args(["diagnose", "--alone", "--wait", "1s", "--log.path"])
        .arg(stage.path("dead/train.log"))
        .current_dir(stage.folder.path())
        .output()
        .expect("unshare");
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77)
        || stderr.contains("unshare")
        || stderr.contains("/dev/fuse")
    {
        println!("skipped: no FUSE file system may be mounted here: {stderr}");
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("do not answer"), "{stderr}");
    assert!(began.elapsed() < Duration::from_secs(1) + 2 * BOUND);
}

#[test]
fn a_driver_that_never_answers_does_not_hold_the_answer() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    stage.run(&format!("{TRAIN}read_for_ever()"));
    let mut fake = Fake::install(stage.folder.path()).expect("the fake is built");
    fake.scenario
        .set("count", 2)
        .set("hang", "forever")
        .write()
        .expect("written");
    let library = fake.library.to_string_lossy().into_owned();
    let began = Instant::now();
    let told = stage.look(&["--nvml.library", &library]);
    assert!(began.elapsed() < Duration::from_secs(2) + 2 * BOUND);
    told.is(0, "training", "sure", Some("work"));
    let spots = told.json["cannot_see"].to_string();
    assert!(spots.contains("the driver has not answered"), "{spots}");
}

#[test]
fn what_is_not_there_is_no_hang() {
    let folder = tempfile::tempdir().expect("a folder");
    let none = folder
        .path()
        .join("none.log")
        .to_string_lossy()
        .into_owned();
    assert_eq!(
        diagnose(&["--alone", "--wait", "1s", "--log.path", &none]).code,
        4
    );
    // Port 1 is nobody's.
    let nobody = diagnose(&["--url", "http://127.0.0.1:1"]);
    assert_eq!(nobody.code, 4);
    assert!(
        nobody.json["note"]
            .to_string()
            .contains("give --log.path or --pid")
    );
    let pipe = folder.path().join("fifo.log");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .expect("mkfifo")
            .success()
    );
    let pipe = pipe.to_string_lossy().into_owned();
    let fifo = diagnose(&["--alone", "--wait", "1s", "--log.path", &pipe]);
    assert!(fifo.why().contains("not a regular file"), "{}", fifo.json);
    for wrong in [
        &["--wait", "0s"][..],
        &["--wait", "60"],
        &["--no-such-flag"],
        &["--pid", "4194304"],
        &["--alone", "--config.file", &none],
        &["run", "--log.path", "x"],
    ] {
        let told = diagnose(wrong);
        assert_eq!(told.code, 2, "{wrong:?}: {}", told.json);
        assert!(!told.stderr.is_empty(), "{wrong:?}");
    }
}

#[test]
fn a_terminal_sees_the_wait_and_obeys_nothing_of_a_name() {
    if python().is_none() || !has("script") {
        return;
    }
    let mut stage = Stage::new();
    let pid = stage.run(&format!(
        "{TRAIN}open('/proc/self/comm', 'w').write('a\\x1b[31mb')\nhang()"
    ));
    let evil = stage.path("\u{1b}[2Jtrain.log");
    fs::rename(stage.log(), &evil).expect("renamed");
    fs::write(stage.path("args"), &*evil.to_string_lossy()).expect("written");
    let command = format!("{EXPORTER} diagnose --alone --wait 2s --log.path \"$(cat args)\"");
    let output = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .current_dir(stage.folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("script");
    let seen = String::from_utf8_lossy(&output.stdout);
    assert!(seen.contains("watching \\u{1b}[2Jtrain@"), "{seen}");
    assert!(seen.contains(" of 2 s"), "{seen}");
    assert!(seen.contains(&format!("py-spy dump --pid {pid}")), "{seen}");
    let codes: Vec<&str> = seen
        .split('\u{1b}')
        .skip(1)
        .map(|rest| &rest[..2])
        .collect();
    assert!(
        !codes.is_empty() && codes.iter().all(|code| *code == "[K"),
        "{codes:?}"
    );
    assert_eq!(output.status.code(), Some(3), "{seen}");
}

#[test]
fn the_help_tells_every_exit_code() {
    let help = Command::new(EXPORTER)
        .args(["diagnose", "--help"])
        .output()
        .expect("it ends");
    let help = String::from_utf8_lossy(&help.stdout);
    for code in 0..=6 {
        assert!(help.contains(&format!("\n  {code}  ")), "{code}: {help}");
    }
}
