//! Programs of the tests: servers on free ports, signals, and waiting with a deadline.

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fake_nvml::Fake;

use super::support::{EXPORTER, Running, try_get};

/// The exporter with this driver.
pub(crate) fn exporter(address: SocketAddr, fake: &Fake, args: &[&str]) -> Command {
    let mut command = Command::new(EXPORTER);
    command
        .args([
            "--web.listen-address",
            &address.to_string(),
            "--log.level",
            "error",
        ])
        .arg("--nvml.library")
        .arg(&fake.library)
        .args(args)
        .env_remove("FAKE_NVML")
        .stderr(Stdio::null());
    command
}

/// Starts a server on a free port; another port if somebody was faster.
pub(crate) fn serve(ready: &str, program: impl Fn(SocketAddr) -> Command) -> (Running, SocketAddr) {
    for _ in 0..5 {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr());
        let address = free.expect("a port");
        let mut running = launch(program(address));
        if answers(&mut running, address, ready) {
            return (running, address);
        }
    }
    panic!(
        "it does not start: {:?}",
        program(([127, 0, 0, 1], 0).into())
    );
}

/// Starts a program that says nothing.
pub(crate) fn launch(mut command: Command) -> Running {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    Running(child.unwrap_or_else(|e| panic!("{command:?}: {e}")))
}

/// Waits until it answers. False if it ends instead.
pub(crate) fn answers(running: &mut Running, address: SocketAddr, ready: &str) -> bool {
    wait(
        60.0,
        || match running.0.try_wait().expect("a child of ours") {
            Some(_) => Some(false),
            None => try_get(address, ready)
                .is_ok_and(|(status, _)| status == 200)
                .then_some(true),
        },
        || format!("an answer of {address}"),
    )
}

pub(crate) fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .status();
    assert!(sent.expect("kill").success(), "kill -{name} {pid}");
}

/// Waits for something, at most so many seconds, and says what did not come.
pub(crate) fn wait<T>(
    seconds: f64,
    mut found: impl FnMut() -> Option<T>,
    what: impl Fn() -> String,
) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(
            began.elapsed().as_secs_f64() < seconds,
            "did not come within {seconds} s: {}",
            what()
        );
        thread::sleep(Duration::from_millis(100));
    }
}

/// Now, in seconds since the epoch.
pub(crate) fn now() -> f64 {
    since_epoch(SystemTime::now())
}

pub(crate) fn since_epoch(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_secs_f64()
}
