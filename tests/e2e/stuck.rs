//! A driver that never answers, as the whole exporter bears it: scrapes stay fast, everything but the GPUs is still
//! told, and a killed exporter is followed by the next one on the same port.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use fake_nvml::Fake;

use super::programs::{answers, exporter, launch, serve, wait};
use super::support::{get, series, value};
use super::{alone, tell};

const SCRAPES: usize = 1_000;
const TRIES: usize = 3;
/// No scrape may take longer, on a machine that has time.
const LIMIT: Duration = Duration::from_millis(50);

/// How long scrapes took, shortest first.
struct Times(Vec<Duration>);

impl Times {
    fn of(address: SocketAddr) -> Self {
        let mut times: Vec<Duration> = (0..SCRAPES)
            .map(|_| {
                let began = Instant::now();
                let (status, _) = get(address, "/metrics");
                assert_eq!(status, 200);
                began.elapsed()
            })
            .collect();
        times.sort_unstable();
        Self(times)
    }

    fn p99(&self) -> Duration {
        self.0[SCRAPES * 99 / 100]
    }

    fn worst(&self) -> Duration {
        self.0[SCRAPES - 1]
    }
}

/// Writes one more step into the log and waits until it is on the page.
fn step(address: SocketAddr, log: &Path, step: u64) {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(log)
        .expect("a log");
    writeln!(
        file,
        "INFO     train/loss=0.039, epoch=0, global_step={step}   trainer.py:587"
    )
    .expect("written");
    let page = || get(address, "/metrics").1;
    let shown = || {
        value(&page(), "training_step{run=\"stuck\"}").filter(|shown| *shown == (step + 1) as f64)
    };
    wait(20.0, shown, || format!("step {step} in\n{}", page()));
}

#[test]
fn a_driver_that_never_answers_slows_no_scrape_and_keeps_no_port() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("train.log");
    fs::write(
        &log,
        "INFO     Training epoch 1/3 started                    trainer.py:737\n",
    )
    .expect("a log");
    let config = folder.path().join("config.yml");
    fs::write(
        &config,
        format!("logs: [{{path: '{}', run: stuck}}]\n", log.display()),
    )
    .expect("a config");
    let config = config.to_string_lossy().into_owned();
    let mut fake = Fake::install(folder.path()).expect("the fake is built");
    fake.scenario.set("count", 4).write().expect("written");

    let (mut running, address) = serve("/-/ready", |address| {
        exporter(address, &fake, &["--config.file", &config])
    });
    let page = || get(address, "/metrics").1;
    let gpus = |page: &str| {
        series(page)
            .filter(|(name, _)| name.starts_with("training_gpu_"))
            .count()
    };
    wait(
        30.0,
        || (gpus(&page()) > 0).then_some(()),
        || format!("GPUs in\n{}", page()),
    );
    step(address, &log, 0);
    let idle = Times::of(address);

    fake.scenario
        .set("hang", "forever")
        .write()
        .expect("written");
    let gone = || Some(page()).filter(|page| value(page, "training_nvml_up") == Some(0.0));
    let stuck = wait(30.0, gone, page);
    assert_eq!(gpus(&stuck), 0, "{stuck}");
    let tries: Vec<Times> = (0..TRIES).map(|_| Times::of(address)).collect();
    let mut worst: Vec<Duration> = tries.iter().map(Times::worst).collect();
    worst.sort_unstable();
    let p99 = tries.iter().map(Times::p99).max().expect("some");
    tell(
        "scrapes",
        &format!(
            "{SCRAPES} scrapes with a driver that never answers: worst {worst:?} in {TRIES} tries, p99 {p99:?}; \
             with one that answers: worst {:?}, p99 {:?}",
            idle.worst(),
            idle.p99()
        ),
    );
    // On a machine that is busy with other things, ten times what the same scrapes took before.
    let limit = LIMIT.max(10 * idle.p99());
    assert!(worst[TRIES / 2] < limit, "{worst:?}, {limit:?} allowed");

    // Everything else lives, and the silence is counted.
    step(address, &log, 5);
    let now = page();
    assert_eq!(gpus(&now), 0);
    assert!(
        value(&now, "training_nvml_blocked_seconds") > Some(3.0),
        "{now}"
    );
    assert_eq!(value(&now, "training_log_up{run=\"stuck\"}"), Some(1.0));

    // Killed while its worker hangs: the port is free at once.
    running.signal("KILL");
    running.0.wait().expect("killed");
    let mut next = launch(exporter(address, &fake, &["--config.file", &config]));
    assert!(
        answers(&mut next, address, "/-/ready"),
        "the port is still held"
    );
    step(address, &log, 10);
    assert_eq!(gpus(&page()), 0);
}
