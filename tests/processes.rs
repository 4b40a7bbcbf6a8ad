//! The process witness on real processes of this machine: from a log to its writers by every usual launch, ranks and
//! loader workers, what they do, and what is told to a user who may not see it.

#![expect(
    clippy::disallowed_methods,
    reason = "the tests start jobs and wait for them"
)]
#![expect(
    clippy::print_stdout,
    reason = "a test that cannot run says why, and one that measures says what"
)]

#[path = "processes/paper.rs"]
mod paper;
#[path = "processes/stage.rs"]
mod stage;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use stage::{Stage, has, monotone, python, signal, until, wait, watch};
use training_exporter::node::process::{Evidence, Processes, Seen};
use training_exporter::node::procfs::ProcFs;

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
fn what_a_silent_job_does_is_told() {
    if python().is_none() {
        return;
    }
    let jobs = [
        ("reads", "read_for_ever()", Evidence::Work),
        ("deadlock", "hang()", Evidence::Still),
        ("spins", "ready()\nwhile True: pass", Evidence::Busy),
        // Its helper thread polls, reads and writes, as a metrics client does in a hung job.
        (
            "helper",
            "
def help():
    while True:
        open('/proc/self/stat').read(); open('metrics', 'w').write('x' * 4000); time.sleep(0.01)
threading.Thread(target=help, daemon=True).start()
hang()",
            Evidence::Still,
        ),
        // Its sidecar is another program, which writes 20 MB a second.
        (
            "sidecar",
            "
subprocess.Popen([sys.executable, '-S', '-E', '-c', '''
import signal, time
signal.alarm(120)
while True:
    open('side', 'wb').write(bytes(200000)); time.sleep(0.01)
'''])
hang()",
            Evidence::Still,
        ),
    ];
    for (name, body, right) in jobs {
        let mut stage = Stage::new();
        let pid = stage.run(body);
        let (evidence, seen) = watch(&stage.log());
        assert!(
            evidence.iter().all(|said| *said == right),
            "{name}: {evidence:?}"
        );
        assert_eq!(seen.pids, [pid], "{name}");
        assert_eq!(seen.counters.stdout_blocked, Some(0), "{name}");
    }
}

#[test]
fn a_print_that_blocks_is_proved() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    stage.script("train.py", "ready()\nwhile True:\n    print('x' * 1000)");
    stage.start("python train.py | tee train.log >/dev/null");
    let pids = stage.ready(1);
    signal("STOP", &stage.named("tee").to_string());
    let blocked = |seen: &Seen| seen.counters.stdout_blocked == Some(1);
    let seen = until(&mut ProcFs::default(), &stage.log(), blocked);
    assert_eq!((seen.pids, seen.counters.stopped), (pids, 0));
}

#[test]
fn compilers_count_as_child_cpu() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    let burn = "
def burn(seconds):
    subprocess.run([sys.executable, '-S', '-E', '-c', 'import time\\nwhile time.process_time() < %s: pass' % seconds])
ready()
while not os.path.exists('go'): time.sleep(0.01)
burn(0.5)
ready('done')
hang()";
    let pid = stage.run(burn);
    let mut source = ProcFs::default();
    let before = until(&mut source, &stage.log(), |seen| seen.pids == [pid]).counters;
    fs::write(stage.path("go"), "").expect("a file");
    let after = until(&mut source, &stage.log(), |seen| {
        seen.counters.child_cpu_seconds >= Some(0.2)
    });
    assert!(monotone(&before, &after.counters) && after.pids == [pid]);
}

#[test]
fn sums_never_fall_while_workers_come_and_go() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    let pid = stage.run(
        "
open('data', 'wb').write(bytes(1 << 18))
ready()
while True:
    worker = os.fork()
    if worker == 0:
        end = time.time() + 0.3
        while time.time() < end:
            open('data', 'rb').read(); time.sleep(0.02)
        os._exit(0)
    os.waitpid(worker, 0)
    time.sleep(0.2)",
    );
    let mut source = ProcFs::default();
    let mut last = source.read(&stage.log()).expect("a look").counters;
    let (mut with, mut without) = (0, 0);
    wait(
        || {
            let seen = source.read(&stage.log()).expect("a look");
            assert!(seen.pids.contains(&pid));
            assert!(
                monotone(&last, &seen.counters),
                "{last:?}\n{:?}",
                seen.counters
            );
            last = seen.counters;
            match last.processes {
                1 => without += 1,
                _ => with += 1,
            }
            (with > 5 && without > 5 && last.read_bytes > Some(4e6)).then_some(())
        },
        || "workers".to_owned(),
    );
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
        .args(["--exact", "as_nobody", "--ignored", "--nocapture"])
        .env("LOG", stage.log())
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

#[test]
#[ignore = "the half of the test before that runs as another user"]
fn as_nobody() {
    let log = std::env::var_os("LOG").expect("LOG");
    let told = ProcFs::default()
        .read(log.as_ref())
        .expect_err("who writes cannot be seen");
    println!("{told:#}");
}

/// A job of 40 processes with 8 threads each: CPU time of a look, against that of `ps -eLf` on the same machine.
#[test]
fn a_look_costs_less_than_a_list_of_threads() {
    if python().is_none() || !has("ps") {
        return;
    }
    let mut stage = Stage::new();
    stage.script(
        "train.py",
        "
for n in range(39):
    if os.fork() == 0:
        signal.alarm(120)
        break
for n in range(7):
    threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
hang()",
    );
    stage.start("exec python train.py >train.log 2>&1");
    stage.ready(40);
    let mut source = ProcFs::default();
    until(&mut source, &stage.log(), |seen| seen.pids.len() == 40);
    let own = || {
        let stat = fs::read_to_string("/proc/thread-self/stat").expect("stat");
        let fields = stat.rsplit(')').next().unwrap_or("").split(' ');
        let times = fields.skip(12).take(2);
        times
            .map(|ticks| ticks.parse::<f64>().expect("ticks"))
            .sum::<f64>()
    };
    let looks = 120;
    let before = own();
    for _ in 0..looks {
        source.read(&stage.log()).expect("a look");
    }
    // Ticks of 10 ms.
    let look = 10.0 * (own() - before) / f64::from(looks);
    let timed = Command::new("sh")
        .args([
            "-c",
            "for n in 1 2 3 4 5 6 7 8 9 10; do ps -eLf >/dev/null; done; times",
        ])
        .output()
        .expect("sh");
    let times = String::from_utf8_lossy(&timed.stdout);
    let children = times.lines().last().expect("the children's times");
    let seconds = children
        .split([' ', 'm', 's'])
        .filter(|part| part.contains('.'));
    let seconds: f64 = seconds
        .map(|part| part.parse::<f64>().expect("seconds"))
        .sum();
    let ps = 1000.0 * seconds / 10.0;
    println!("a look: {look:.2} ms of CPU; ps -eLf: {ps:.1} ms");
    assert!(
        look < ps,
        "a look: {look:.2} ms of CPU; ps -eLf: {ps:.1} ms"
    );
}
