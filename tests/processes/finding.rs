//! From a log to its writers by every usual launch, to ranks and loader workers; and what is told to a user who may not
//! see them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use training_exporter::node::process::{Processes, Seen};
use training_exporter::node::procfs::ProcFs;

use super::stage::{Stage, has, python, signal, until};

/// A launcher with two ranks, each doing what `rank.py` says.
const LAUNCHER: &str = "
ranks = [subprocess.Popen([sys.executable, '-S', '-E', 'rank.py'], env=dict(os.environ, RANK=str(n), LOCAL_RANK=str(n)))
         for n in range(2)]
for rank in ranks:
    rank.wait()
";

#[test]
fn every_usual_launch_leads_to_the_training() {
    if python().is_none() {
        return;
    }
    let launches = [
        ("redirect", "exec python train.py >train.log 2>&1"),
        (
            "shell",
            "{ echo begins; python train.py; echo ends; } >train.log 2>&1",
        ),
        ("tee", "python train.py 2>&1 | tee train.log >/dev/null"),
        (
            "two hops",
            "python train.py 2>&1 | sed -u s/a/b/ | tee train.log >/dev/null",
        ),
        (
            "stderr",
            "python train.py 2>&1 >/dev/null | tee -a train.log",
        ),
        (
            "script",
            "script -qefc 'python train.py' train.log </dev/null",
        ),
        ("fed", "yes | python train.py >train.log 2>&1"),
        ("nohup", "nohup timeout 100 python train.py >train.log 2>&1"),
    ];
    for (name, command) in launches {
        if name == "script" && !has("script") {
            continue;
        }
        let mut stage = Stage::new();
        stage.script("train.py", "print('begins')\nhang()");
        stage.start(command);
        let pids = stage.ready(1);
        let seen = until(&mut ProcFs::default(), &stage.log(), |seen| {
            !seen.pids.is_empty()
        });
        assert_eq!(seen.pids, pids, "{name}");
    }
}

#[test]
fn ranks_are_seen_and_the_launcher_is_none() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    stage.script("rank.py", "hang()");
    stage.script("launch.py", LAUNCHER);
    // In a Kubernetes pod the launcher and everybody else has a rank, too.
    stage.start("export RANK=0; python launch.py 2>&1 | tee train.log");
    let pids = stage.ready(2);
    let mut source = ProcFs::default();
    let seen = until(&mut source, &stage.log(), |seen| !seen.pids.is_empty());
    assert_eq!(seen.pids, pids);

    signal("STOP", &pids[1].to_string());
    let seen = until(&mut source, &stage.log(), |seen| seen.counters.stopped > 0);
    assert_eq!((seen.counters.stopped, seen.counters.processes), (1, 2));
    signal("CONT", &pids[1].to_string());
    until(&mut source, &stage.log(), |seen| seen.counters.stopped == 0);
}

#[test]
fn gpu_holders_are_ranks_where_no_environment_tells() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    stage.script("rank.py", "hang()");
    stage.script(
        "launch.py",
        &LAUNCHER.replace("RANK=str(n), LOCAL_RANK=str(n)", "NUMBER=str(n)"),
    );
    stage.start("exec python launch.py >train.log 2>&1");
    let pids = stage.ready(2);
    let mut source = ProcFs::default();
    // Without them the topmost writer stands for the job.
    let launcher = until(&mut source, &stage.log(), |seen| seen.pids.len() == 1);
    assert!(!pids.contains(&launcher.pids[0]));
    source.gpu_pids(&pids);
    assert_eq!(source.read(&stage.log()).expect("a look").pids, pids);
}

#[test]
fn loader_workers_count_forked_or_spawned() {
    if python().is_none() {
        return;
    }
    let body = "
import multiprocessing
def work(n):
    signal.alarm(120)
    hang()
if __name__ == '__main__':
    way = multiprocessing.get_context(sys.argv[1])
    workers = [way.Process(target=work, args=(n,), daemon=True) for n in range(2)]
    for worker in workers:
        worker.start()
    hang()
";
    for way in ["fork", "spawn", "forkserver"] {
        let mut stage = Stage::new();
        stage.script("train.py", body);
        stage.start(&format!("exec python train.py {way} >train.log 2>&1"));
        let pids = stage.ready(3);
        let seen = until(&mut ProcFs::default(), &stage.log(), |seen| {
            seen.pids.len() > 2
        });
        assert!(
            pids.iter().all(|pid| seen.pids.contains(pid)),
            "{way}: {seen:?}"
        );
        // The server that forks workers is one of them; the one that keeps book of them is not.
        assert_eq!(
            seen.pids.len(),
            if way == "forkserver" { 4 } else { 3 },
            "{way}"
        );
    }
}

#[test]
fn a_reader_of_the_log_is_no_writer_and_after_the_end_nobody_is() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    let pid = stage.run("hang()");
    stage.start("exec tail -f train.log");
    stage.start("exec python -c 'import time; file = open(\"train.log\"); time.sleep(100)'");
    let mut source = ProcFs::default();
    assert_eq!(source.read(&stage.log()).expect("a look").pids, [pid]);
    // A rotation does not lose those who write on in the old file.
    fs::rename(stage.log(), stage.path("train.log.1")).expect("rotated");
    fs::write(stage.log(), "").expect("a new log");
    for _ in 0..30 {
        assert_eq!(source.read(&stage.log()).expect("a look").pids, [pid]);
    }
    stage.end();
    let seen = until(&mut source, &stage.log(), |seen| seen.pids.is_empty());
    assert_eq!(seen.counters.processes, 0);
    assert_eq!(
        ProcFs::default().read(&stage.path("none")).expect("a look"),
        Seen::default()
    );
}

#[test]
fn a_user_who_may_not_see_the_writers_is_told() {
    if python().is_none() || !has("setpriv") {
        return;
    }
    let mut stage = Stage::new();
    stage.run("hang()");
    let open = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
    };
    open(stage.folder.path(), 0o755);
    let this = stage.path("this");
    fs::copy(std::env::current_exe().expect("this test"), &this).expect("a copy");
    open(&this, 0o755);
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let asked = Command::new("setpriv")
        .args(nobody)
        .arg(&this)
        .args(["--exact", "finding::as_nobody", "--nocapture"])
        .env("LOG_OF_ANOTHER_USER", stage.log())
        .output()
        .expect("setpriv");
    let told = String::from_utf8_lossy(&asked.stdout);
    if !told.contains("as_nobody") {
        println!("skipped: only root can become nobody");
        return;
    }
    assert!(
        asked.status.success(),
        "{told}{}",
        String::from_utf8_lossy(&asked.stderr)
    );
    for word in [
        "train.log",
        "cannot be seen",
        "CAP_SYS_PTRACE",
        "as the training's user",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
}

/// The half of the test before that runs as another user; there is nothing for it to do without that one.
#[test]
fn as_nobody() {
    let Some(log) = std::env::var_os("LOG_OF_ANOTHER_USER") else {
        return;
    };
    let told = ProcFs::default()
        .read(log.as_ref())
        .expect_err("who writes cannot be seen");
    println!("{told:#}");
}
