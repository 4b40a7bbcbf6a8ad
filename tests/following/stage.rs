//! The exporter that follows some logs, started in whatever surroundings.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::support::{EXPORTER, Running, free_port, get, try_get, value};

/// An exporter that answers.
pub(crate) struct Exporter {
    pub(crate) running: Running,
    address: SocketAddr,
}

impl Exporter {
    /// Starts it with this configuration; `around` is a program that starts it in its turn. Nothing if it does not
    /// come up.
    pub(crate) fn within(around: &[&str], folder: &Path, logs: &str) -> Option<Self> {
        let config = folder.join("config.yaml");
        std::fs::write(&config, format!("logs:\n{logs}")).expect("written");
        for _ in 0..5 {
            let address = free_port();
            let words: Vec<&str> = around.iter().copied().chain([EXPORTER]).collect();
            let mut command = Command::new(words[0]);
            command
                .args(&words[1..])
                .args(["--web.listen-address", &address.to_string()])
                .arg("--config.file")
                .arg(&config)
                .current_dir(folder)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(std::fs::File::create(folder.join("said")).expect("a file"));
            let mut running = Running(command.spawn().expect("the program starts"));
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(30) {
                if try_get(address, "/-/healthy").is_ok_and(|(status, _)| status == 200) {
                    return Some(Self { running, address });
                }
                if running.end_within(Duration::from_millis(20)).is_some() {
                    break;
                }
            }
        }
        None
    }

    pub(crate) fn follows(folder: &Path, logs: &str) -> Self {
        Self::within(&[], folder, logs).expect("the exporter starts")
    }

    pub(crate) fn page(&self) -> String {
        // With thousands of logs, on a busy machine, an answer may take long.
        until("the metrics", || try_get(self.address, "/metrics").ok()).1
    }

    pub(crate) fn status(&self) -> String {
        get(self.address, "/").1
    }

    pub(crate) fn api(&self) -> String {
        get(self.address, "/api/v1/runs").1
    }

    pub(crate) fn value(&self, series: &str) -> Option<f64> {
        value(&self.page(), series)
    }

    /// Waits until the series has this value.
    pub(crate) fn reaches(&self, series: &str, wanted: f64) {
        let began = Instant::now();
        while self.value(series) != Some(wanted) {
            let is = self.value(series);
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{series} is {is:?}, not {wanted}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// How often it has asked the kernel to read.
    pub(crate) fn reads(&self) -> f64 {
        let counted = std::fs::read_to_string(format!("/proc/{}/io", self.running.0.id()));
        let counted = counted.expect("it lives");
        let reads = counted
            .lines()
            .find_map(|line| line.strip_prefix("syscr: "));
        reads.expect("counted").parse().expect("a number")
    }
}

/// A FUSE file system may be mounted here, by a program around another; else the test says that it was skipped.
pub(crate) fn mounts(around: &[&str], folder: &Path) -> bool {
    let mut program = Command::new(around[0]);
    program
        .args(&around[1..])
        .arg("/bin/true")
        .current_dir(folder);
    let can = program.status().is_ok_and(|status| status.success());
    if !can {
        eprintln!("skipped: no FUSE file system may be mounted here");
    }
    can
}

/// Waits until it is so.
pub(crate) fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a trainer writes when it begins an epoch.
pub(crate) fn epoch(epoch: u32) -> String {
    format!("INFO Training epoch {epoch}/9 started\n")
}

pub(crate) fn append(log: &Path, text: &str) {
    let mut options = std::fs::OpenOptions::new();
    let file = options.append(true).create(true).open(log);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .expect("written");
}
