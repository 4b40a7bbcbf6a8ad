//! With a running exporter: it has seen the run at work, so its word is surer than two looks.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::programs::serve;
use super::stage::{Stage, python, signal, wait};
use super::support::{EXPORTER, Running, get};
use super::{LIMITS, TRAIN, Told, VALIDATE, diagnose};

/// An exporter of this log, where minutes are seconds.
fn exporter(stage: &Stage) -> (Running, SocketAddr) {
    let path = stage.path("exporter.yaml");
    let log = stage.log();
    let logs = format!(
        "logs: [{{path: '{}', run: llama@here}}]\n{LIMITS}",
        log.display()
    );
    fs::write(&path, logs).expect("written");
    serve("/-/ready", |address| {
        let mut command = Command::new(EXPORTER);
        command
            .args([
                "--log.level",
                "error",
                "--web.listen-address",
                &address.to_string(),
            ])
            .arg("--config.file")
            .arg(&path)
            .stderr(Stdio::null());
        command
    })
}

/// Waits until the exporter gives this verdict.
fn verdict(address: SocketAddr, right: &str) {
    let page = || get(address, "/api/v1/runs").1;
    let says = || {
        let view: Value = serde_json::from_str(&page()).ok()?;
        (view["runs"][0]["verdict"] == right).then_some(())
    };
    wait(says, || format!("{right}: {}", page()));
}

fn ask(address: SocketAddr, args: &[&str]) -> Told {
    let url = format!("http://{address}");
    diagnose(&[&["--url", &url, "--wait", "2s"], args].concat())
}

#[test]
fn a_log_without_a_phase_is_told_from_a_run_that_has_not_begun() {
    let stage = Stage::new();
    let line = |n: u32| format!("round {n} of the oracle, lr=0.{n}\n");
    fs::write(stage.log(), (0..120).map(line).collect::<String>()).expect("written");
    let (_running, address) = exporter(&stage);
    verdict(address, "not_judged");
    let told = ask(address, &[]);
    assert_eq!(told.code, 3, "{}", told.json);
    let headline = told.run()["headline"].to_string();
    assert!(
        headline.contains("of the 120 lines of its log"),
        "{headline}"
    );
    let next = told.run()["next"][0]["command"].to_string();
    assert!(next.contains("training-exporter replay "), "{next}");
    let seen = told.json["cannot_see"].to_string();
    assert!(seen.contains("Add your trainer"), "{seen}");
}

/// Reads until it is told to hang.
const READS: &str = "
open('data.%d' % os.getpid(), 'wb').write(bytes(1 << 18))
ready()
while not os.path.exists('hang'):
    open('data.%d' % os.getpid(), 'rb', buffering=0).read(); time.sleep(0.02)
lock = threading.Lock(); lock.acquire(); lock.acquire()
";

#[test]
fn an_exporter_that_saw_it_at_work_proves_a_deadlock() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    let pids = stage.two(&format!("{TRAIN}{VALIDATE}{READS}"));
    let (_running, address) = exporter(&stage);
    verdict(address, "validating");
    // Work is seen from the first whole window on.
    let works = || {
        let view: Value = serde_json::from_str(&get(address, "/api/v1/runs").1).ok()?;
        view["runs"][0]["work"]["age"].as_f64().map(|_| ())
    };
    wait(works, || get(address, "/api/v1/runs").1);
    let healthy = ask(address, &[]);
    healthy.is(0, "validating", "sure", Some("work"));
    assert_eq!(healthy.json["source"], "exporter");

    fs::write(stage.path("hang"), "").expect("a file");
    verdict(address, "hung");
    let hung = ask(address, &["llama"]);
    hung.is(1, "hung", "sure", Some("still"));
    assert_eq!(
        hung.pids(),
        super::set(&pids),
        "its own eyes see the processes"
    );
    assert_eq!(
        (
            hung.moved("log_bytes"),
            hung.moved("steps"),
            hung.moved("reads")
        ),
        (Some(false), Some(false), Some(false))
    );

    // The log leads to the same answer; a log that it does not follow is looked at alone.
    let log = stage.log().to_string_lossy().into_owned();
    let by_log = ask(address, &["--log.path", &log]);
    by_log.is(1, "hung", "sure", Some("still"));
    let other = stage.path("other.log").to_string_lossy().into_owned();
    fs::write(&other, "").expect("written");
    let alone = ask(address, &["--log.path", &other]);
    assert_eq!(
        (alone.code, &alone.json["source"]),
        (4, &"alone".into()),
        "{}",
        alone.json
    );

    let unknown = ask(address, &["nobody"]);
    assert_eq!(unknown.code, 4);
    let note = unknown.json["note"].to_string();
    assert!(note.contains("llama@here"), "{note}");
}

#[test]
fn an_exporter_knows_a_lost_rank_and_the_listen_address_finds_it() {
    if python().is_none() {
        return;
    }
    let mut stage = Stage::new();
    let pids = stage.two(&format!("{TRAIN}hang()"));
    let (_running, address) = exporter(&stage);
    signal("STOP", &pids[0].to_string());
    verdict(address, "lost_rank");
    let port = format!("0.0.0.0:{}", address.port());
    let told = diagnose(&["--wait", "1s", "--web.listen-address", &port, "llama@here"]);
    assert_eq!(
        (told.code, told.summary().1, told.summary().2),
        (1, "lost_rank", "sure")
    );
    assert!(
        told.next().contains(&format!("kill -CONT {}\n", pids[0])),
        "{}",
        told.next()
    );
}
