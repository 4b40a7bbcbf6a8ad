//! What several tests need: a child process that is always ended, and a plain HTTP client.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The exporter's own binary.
pub const EXPORTER: &str = env!("CARGO_BIN_EXE_training-exporter");

/// A child process that does not outlive its test.
pub struct Running(pub Child);

impl Running {
    /// Starts `command` and hands out its stdout, line by line.
    pub fn start(command: &mut Command) -> (Self, std::io::Lines<BufReader<ChildStdout>>) {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        (Self(child), lines)
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([format!("-{name}"), self.0.id().to_string()])
            .status();
        assert!(sent.expect("kill is there").success(), "kill -{name}");
    }

    /// Waits for the end, at most so long; its exit code, or nothing.
    pub fn end_within(&mut self, patience: Duration) -> Option<i32> {
        let began = Instant::now();
        while began.elapsed() < patience {
            if let Some(status) = self.0.try_wait().expect("a child of ours") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A free port; another process may take it in the moment between, so whoever listens there tries again.
pub fn free_port() -> SocketAddr {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr());
    port.expect("a port")
}

/// The exporter on a port of its own, once it is ready.
pub fn serving(args: &[impl AsRef<OsStr>]) -> (Running, SocketAddr) {
    for _ in 0..5 {
        let address = free_port();
        let mut command = Command::new(EXPORTER);
        command
            .args(args)
            .args(["--web.listen-address", &address.to_string()])
            .stderr(Stdio::null());
        let (mut running, _) = Running::start(&mut command);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(20) {
            if try_get(address, "/-/ready").is_ok_and(|(status, _)| status == 200) {
                return (running, address);
            }
            if running.end_within(Duration::from_millis(20)).is_some() {
                break;
            }
        }
    }
    panic!("the exporter does not come up");
}

/// A headless Chromium with this empty profile, which asks nobody for anything of its own.
pub fn chromium(profile: &Path) -> Command {
    let mut command = Command::new("chromium");
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    command
}

/// The series that may be named: the exporter's metrics, what the recording rules make of them, and what Prometheus adds.
pub fn known_series() -> BTreeSet<String> {
    let mut known: BTreeSet<String> = ["up", "ALERTS"].map(str::to_owned).into();
    for entry in training_exporter::state::metrics::all_metrics() {
        if entry.kind == "summary" {
            known.extend(["sum", "count"].map(|part| format!("{}_{part}", entry.name)));
        }
        known.insert(entry.name.to_owned());
    }
    for file in glob::glob("alerts/*.rules.yml").expect("a pattern") {
        let rules = std::fs::read_to_string(file.expect("a path")).expect("rules");
        let lines = rules.lines().map(str::trim);
        let records = lines.filter_map(|line| line.strip_prefix("- record:"));
        known.extend(records.map(|name| name.trim().to_owned()));
    }
    known
}

/// Asks for a path and returns status and body.
pub fn get(address: SocketAddr, path: &str) -> (u16, String) {
    try_get(address, path).unwrap_or_else(|e| panic!("GET {path}: {e}"))
}

/// Asks for a path.
pub fn try_get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    ask(address, "GET", path, "")
}

/// Sends a request with a body of JSON, which may be empty; status and body. Of HTTP/1.0, so that no answer is chunked.
pub fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let bad = || std::io::Error::other("no HTTP answer");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(bad)?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .ok_or_else(bad)?;
    Ok((status, body.to_owned()))
}

/// Feeds `input` to `program` and returns whether it succeeded and all that it said.
pub fn pipe(program: &str, args: &[&str], input: &str) -> (bool, String) {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{program}: {e}; tests/run.sh installs what the tests need"));
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(input.as_bytes())
        .expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// The series of a metric page: name with labels, and value.
pub fn series(page: &str) -> impl Iterator<Item = (&str, f64)> {
    page.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series, value.parse().ok()?))
        })
}

/// The value of one series, written as on the page.
pub fn value(page: &str, wanted: &str) -> Option<f64> {
    series(page)
        .find(|(series, _)| *series == wanted)
        .map(|(_, value)| value)
}
