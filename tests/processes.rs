//! The process witness on real processes of this machine: what jobs do that are silent, blocked, compiling or dead, and
//! what a look costs. `finding` is the way from a log to its processes, `paper` what cannot be made to happen here.

#![expect(
    clippy::disallowed_methods,
    reason = "the tests start jobs and wait for them"
)]
#![expect(
    clippy::print_stdout,
    reason = "a test that cannot run says why, and one that measures says what"
)]

#[path = "processes/finding.rs"]
mod finding;
#[path = "processes/paper.rs"]
mod paper;
#[path = "processes/stage.rs"]
mod stage;

use std::fs;
use std::process::Command;

use stage::{Stage, has, monotone, python, signal, until, wait, watch};
use training_exporter::node::process::window::Evidence;
use training_exporter::node::process::{Found, Processes, Seen, Watcher};
use training_exporter::node::procfs::ProcFs;

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
fn a_rank_that_ends_is_missed_while_others_live() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    stage.script("train.py", "ready()\nhang()");
    stage.start("exec >train.log; for RANK in 0 1 2; do RANK=$RANK python train.py & done; wait");
    let pids = stage.ready(3);
    let (mut source, mut watcher) = (ProcFs::default(), Watcher::new(60.0, 1.0));
    let mut at = 0.0;
    let mut gone = |right: &dyn Fn(&Seen) -> bool| {
        let seen = until(&mut source, &stage.log(), right);
        at += 5.0;
        match watcher.look(at, seen) {
            Found::There(witnessed, _) => witnessed.ranks_gone(),
            Found::Nobody | Found::Fewer | Found::Gone(_) => None,
        }
    };
    assert_eq!(gone(&|seen| seen.counters.named_ranks == Some(3)), Some(0));
    signal("KILL", &pids[1].to_string());
    assert_eq!(gone(&|seen| seen.counters.named_ranks == Some(2)), Some(1));
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
