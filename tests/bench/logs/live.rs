//! The exporter itself, as it runs beside a training: how soon a byte is visible, and how much memory it takes.

use std::fs::{self, File};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::recorded;
use crate::support::{EXPORTER, Running, series, try_get};

/// So often a byte is waited for.
const ROUNDS: u64 = 200;
/// Nothing here takes longer, or it is broken.
const PATIENCE: Duration = Duration::from_secs(600);

/// From the moment before the write to the end of the answer that shows it, in all logs that were written.
pub(crate) fn visible(folder: &Path) {
    for count in [1, 200] {
        let place = folder.join(count.to_string());
        fs::create_dir(&place).expect("a folder");
        let mut logs: Vec<File> = (0..count)
            .map(|n| File::create(place.join(format!("run{n}.log"))).expect("a log"))
            .collect();
        logs.iter_mut()
            .for_each(|log| writeln!(log, "step 1: loss=1").expect("written"));
        let (exporter, address) = start(&place.join("*.log"));
        shown(address, count, 1);
        let mut times: Vec<Duration> = (2..ROUNDS + 2)
            .map(|step| {
                // Not in step with the look of every second.
                thread::sleep(Duration::from_millis(50 + step * 37 % 100));
                let began = Instant::now();
                for log in &mut logs {
                    writeln!(log, "step {step}: loss=1").expect("written");
                }
                shown(address, count, step);
                began.elapsed()
            })
            .collect();
        times.sort();
        let at = |share: f64| {
            times[((times.len() - 1) as f64 * share).round() as usize].as_secs_f64() * 1e3
        };
        println!(
            "{count:4} logs: written to visible in all of them: median {:.0} ms, p99 {:.0} ms of {ROUNDS}",
            at(0.5),
            at(0.99)
        );
        println!("{count:4} logs: {}", memory_of(&exporter));
    }
}

/// Waits until so many runs show the step.
fn shown(address: SocketAddr, count: usize, step: u64) {
    until(address, |page| {
        let steps = series(page).filter(|(name, _)| name.starts_with("training_step{"));
        steps.filter(|&(_, value)| value == step as f64).count() == count
    });
}

/// What is resident with many logs of real trainings, and with one line that never ends.
pub(crate) fn memory(folder: &Path) {
    let logs = recorded();
    let many = folder.join("many");
    fs::create_dir(&many).expect("a folder");
    let mut all = 0;
    for (n, (_, log)) in logs.iter().cycle().take(200).enumerate() {
        fs::write(many.join(format!("run{n}.log")), log).expect("written");
        all += log.len();
    }
    let (exporter, address) = start(&many.join("*.log"));
    until(address, |page| bytes_read(page) == all as f64);
    println!(" 200 recorded logs: {}", memory_of(&exporter));
    drop(exporter);

    let endless = folder.join("endless.log");
    let mut file = File::create(&endless).expect("a log");
    let part = vec![b'x'; 1 << 20];
    for _ in 0..1024 {
        file.write_all(&part).expect("written");
    }
    let (exporter, address) = start(&endless);
    until(address, |page| bytes_read(page) == f64::from(1 << 30));
    println!(" 1 GiB without a newline: {}", memory_of(&exporter));
}

fn bytes_read(page: &str) -> f64 {
    let bytes = series(page).filter(|(name, _)| name.starts_with("training_log_bytes_total"));
    bytes.map(|(_, value)| value).sum()
}

/// From the start of the program to the answer with phase and epoch, and to all of the log being read.
pub(crate) fn long(folder: &Path) {
    let path = folder.join("long.log");
    let mut file = File::create(&path).expect("a log");
    let longest = recorded().into_iter().max_by_key(|(_, log)| log.len());
    let (name, log) = longest.expect("a log");
    let mut size = 0;
    while size < 2_000_000_000 {
        file.write_all(&log).expect("written");
        size += log.len();
    }
    let began = Instant::now();
    let (_exporter, address) = start(&path);
    until(address, |page| {
        let known = |(name, value): (&str, f64)| {
            name.starts_with("training_phase{") && value == 1.0 && !name.contains("\"unknown\"")
        };
        series(page).any(known) && series(page).any(|(name, _)| name.starts_with("training_epoch{"))
    });
    println!(
        " 2 GB of {name}: phase and epoch {:.0} ms after the start",
        began.elapsed().as_secs_f64() * 1e3
    );
    until(address, |page| bytes_read(page) == size as f64);
    println!(
        " 2 GB of {name}: all of it is read {:.1} s after the start",
        began.elapsed().as_secs_f64()
    );
}

/// The exporter on a free port.
fn start(logs: &Path) -> (Running, SocketAddr) {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.expect("a free port");
    let config = logs.with_file_name("config.yml");
    fs::write(
        &config,
        format!("run_max: 1000\nlogs: [{{ path: '{}' }}]\n", logs.display()),
    )
    .expect("a config");
    let child = Command::new(EXPORTER)
        .arg(format!("--web.listen-address={address}"))
        .arg(format!("--config.file={}", config.display()))
        .arg("--nvml.library=/nonexistent")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    (Running(child.expect("the exporter starts")), address)
}

fn until(address: SocketAddr, done: impl Fn(&str) -> bool) {
    let began = Instant::now();
    while !try_get(address, "/metrics").is_ok_and(|(_, page)| done(&page)) {
        assert!(began.elapsed() < PATIENCE, "it is not shown");
        thread::sleep(Duration::from_millis(1));
    }
}

/// What is resident, and what was at most.
fn memory_of(exporter: &Running) -> String {
    let status = fs::read_to_string(format!("/proc/{}/status", exporter.0.id())).expect("it runs");
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kilobytes.expect("a number") / 1024.0
    };
    format!(
        "{:.0} MiB resident, {:.0} MiB at most",
        of("VmRSS:"),
        of("VmHWM:")
    )
}
