//! The door: what each path answers, without a socket; and the real program on a real socket.

#![expect(clippy::disallowed_methods, reason = "it starts the program")]

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use support::{EXPORTER, Running, get, serving, value};
use tower::ServiceExt;
use training_exporter::state::Shared;
use training_exporter::web::router;

async fn ask(shared: &Shared, path: &str) -> (StatusCode, String, String) {
    let request = Request::get(path).body(Body::empty()).expect("a request");
    let answer = router(shared.clone(), || 1000.0)
        .oneshot(request)
        .await
        .expect("infallible");
    let kind = answer.headers()[header::CONTENT_TYPE]
        .to_str()
        .expect("text")
        .to_owned();
    let status = answer.status();
    let body = to_bytes(answer.into_body(), 1 << 20).await.expect("a body");
    (
        status,
        kind,
        String::from_utf8(body.to_vec()).expect("text"),
    )
}

#[tokio::test(flavor = "current_thread")]
async fn each_path_answers() {
    let shared = Shared::default();
    let (status, kind, page) = ask(&shared, "/metrics").await;
    assert_eq!(
        (status, kind.as_str()),
        (StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8")
    );
    assert_eq!(
        value(&page, "training_exporter_clock_timestamp_seconds"),
        Some(1000.0)
    );
    assert_eq!(value(&page, "training_nvml_up"), Some(0.0));
    assert!(page.contains("process_resident_memory_bytes"));
    let (status, kind, page) = ask(&shared, "/").await;
    assert_eq!(
        (status, kind.as_str()),
        (StatusCode::OK, "text/html; charset=utf-8")
    );
    assert!(page.starts_with("<!doctype html>"));
    let (status, kind, page) = ask(&shared, "/?run=nobody").await;
    assert_eq!(
        (status, kind.as_str()),
        (StatusCode::NOT_FOUND, "text/html; charset=utf-8")
    );
    assert!(page.contains("No run of this name is known now"), "{page}");
    let (status, kind, _) = ask(&shared, "/api/v1/runs").await;
    assert_eq!(
        (status, kind.as_str()),
        (StatusCode::OK, "application/json")
    );
    assert_eq!(ask(&shared, "/-/healthy").await.0, StatusCode::OK);
    assert_eq!(
        ask(&shared, "/-/ready").await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
    shared.lock().exporter.ready = true;
    assert_eq!(ask(&shared, "/-/ready").await.0, StatusCode::OK);
}

#[test]
fn works_without_any_argument_and_ends_on_sigterm() {
    let (mut running, address) = serving(&[""; 0]);
    let (_, page) = get(address, "/");
    assert!(page.contains("No run was found"), "{page}");
    // An idle connection, and one that never ends its request, do not hold the end.
    let _idle = TcpStream::connect(address).expect("connects");
    let mut slow = TcpStream::connect(address).expect("connects");
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
        .expect("half a request");
    running.signal("TERM");
    assert_eq!(running.end_within(Duration::from_secs(5)), Some(0));
}

#[test]
fn what_was_named_and_cannot_be_read_is_told_in_its_own_log_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let made = Command::new("mkfifo").arg(path("pipe.out")).status();
    assert!(made.expect("mkfifo is there").success());
    std::fs::write(path("there.log"), "x\n").expect("written");
    let mut command = Command::new(EXPORTER);
    command.args(["--web.listen-address=127.0.0.1:0", "--log.level=warn"]);
    for log in ["gone.log", "there.log", "*.out"] {
        command.arg(format!("--log.path={}", path(log)));
    }
    command.arg(format!("--val.data={}", path("samples")));
    let said = std::fs::File::create(path("said")).expect("created");
    let (running, _) = Running::start(command.stderr(said));
    let told = [
        ("its log cannot be read", "gone.log: No such file"),
        ("no regular file matches", "pipe.out"),
        (
            "validation files cannot be counted",
            "samples: no such folder",
        ),
    ];
    let read = || std::fs::read_to_string(path("said")).expect("text");
    let began = Instant::now();
    while !told.iter().all(|(what, _)| read().contains(what)) {
        assert!(began.elapsed() < Duration::from_secs(20), "{}", read());
        std::thread::sleep(Duration::from_millis(50));
    }
    // Several more looks say nothing new.
    std::thread::sleep(Duration::from_secs(3));
    drop(running);
    let said = read();
    for (what, which) in told {
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(what)).collect();
        assert_eq!(lines.len(), 1, "{said}");
        assert!(
            lines[0].contains("WARN") && lines[0].contains(which),
            "{said}"
        );
    }
    assert!(!said.contains("there.log"), "{said}");
}

#[test]
fn a_port_in_use_is_told_with_the_way_out() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let output = Command::new(EXPORTER)
        .args(["--web.listen-address", &address])
        .output()
        .expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains(&format!("cannot listen on {address}"))
            && said.contains("--web.listen-address :PORT"),
        "{said}"
    );
}

#[test]
fn a_log_that_appears_grows_and_moves_is_followed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("train.log");
    let (_running, address) = serving(&["--log.path", &log.display().to_string()]);
    let until = |what: &str, want: &dyn Fn(&str) -> bool| {
        let began = Instant::now();
        loop {
            let (_, page) = get(address, "/metrics");
            if want(&page) {
                return page;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{what}: {page}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let has = |page: &str, part: &str| page.contains(part);
    std::fs::write(&log, "INFO Training epoch 1/3 started\n").expect("written");
    until("the log appears", &|p| {
        has(p, "phase=\"train\"} 1") && has(p, "framework=\"speculators\"")
    });
    let append = |text: &str| {
        let mut file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(&log)
            .expect("opens");
        file.write_all(text.as_bytes()).expect("written");
    };
    append("INFO Validation epoch 1/3 started\n");
    until("it grows", &|p| has(p, "phase=\"validation\"} 1"));
    std::fs::rename(&log, folder.path().join("train.log.1")).expect("moved");
    append("INFO Training epoch 2/3 started\n");
    let page = until("it is rotated", &|p| has(p, "phase=\"train\"} 1"));
    assert!(
        has(&page, "training_log_rotations_total") && page.contains("training_epoch{run=\"train@"),
        "{page}"
    );
    std::fs::write(&log, "").expect("truncated");
    append("INFO Training epoch 3/3 started\n");
    until("it is truncated", &|p| {
        p.lines()
            .any(|l| l.starts_with("training_epoch{") && l.ends_with(" 3"))
    });
}
