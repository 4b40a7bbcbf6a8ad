//! A driver that never answers, as the whole exporter bears it: scrapes stay fast, everything but the GPUs is still
//! told, and a killed exporter is followed by the next one on the same port.

use std::fmt::{self, Write as _};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fake_nvml::Fake;

use super::programs::{answers, exporter, launch, serve, wait};
use super::support::{Running, get, series, value};
use super::{alone, tell};

const SCRAPES: usize = 1_000;
/// So many while the driver answers, to compare with.
const BEFORE: usize = 500;
/// Most of three tries must keep the limit: one may meet a moment in which the machine does something else.
const TRIES: usize = 3;
/// No scrape may take longer.
const LIMIT: Duration = Duration::from_millis(50);

/// How long each of many scrapes took, shortest first.
struct Times {
    all: Vec<Duration>,
    /// Without what the exporter and this test waited for a core: that is the machine's.
    own: Vec<Duration>,
}

impl Times {
    fn of(exporter: &Running, address: SocketAddr, scrapes: usize) -> Self {
        let (mut all, mut own) = (Vec::new(), Vec::new());
        for _ in 0..scrapes {
            let (began, waited) = (Instant::now(), waited(exporter));
            let (status, _) = get(address, "/metrics");
            let took = began.elapsed();
            assert_eq!(status, 200);
            all.push(took);
            own.push(took.saturating_sub(self::waited(exporter).saturating_sub(waited)));
        }
        all.sort_unstable();
        own.sort_unstable();
        Self { all, own }
    }

    fn worst(&self) -> Duration {
        self.own[self.own.len() - 1]
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (last, p99) = (self.all.len() - 1, self.all.len() * 99 / 100);
        write!(
            f,
            "p99 {:.1?}, worst {:.1?} ({:.1?} without waiting for a core)",
            self.all[p99],
            self.all[last],
            self.worst()
        )
    }
}

/// How long the exporter's threads and this one have waited for a core, together; nothing where the kernel does not tell.
fn waited(exporter: &Running) -> Duration {
    let threads = fs::read_dir(format!("/proc/{}/task", exporter.0.id()));
    let threads = threads
        .into_iter()
        .flatten()
        .flatten()
        .map(|thread| thread.path());
    let nanoseconds = threads
        .chain([PathBuf::from("/proc/thread-self")])
        .filter_map(|thread| {
            let text = fs::read_to_string(thread.join("schedstat")).ok()?;
            text.split_whitespace().nth(1)?.parse::<u64>().ok()
        });
    Duration::from_nanos(nanoseconds.sum())
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
    let idle = Times::of(&running, address, BEFORE);

    fake.scenario
        .set("hang", "forever")
        .write()
        .expect("written");
    let gone = || Some(page()).filter(|page| value(page, "training_nvml_up") == Some(0.0));
    let stuck = wait(30.0, gone, page);
    assert_eq!(gpus(&stuck), 0, "{stuck}");
    let mut tries: Vec<Times> = Vec::new();
    let kept = |tries: &[Times]| tries.iter().filter(|times| times.worst() < LIMIT).count();
    while tries.len() < TRIES && kept(&tries) <= TRIES / 2 {
        tries.push(Times::of(&running, address, SCRAPES));
    }
    let mut told = format!(
        "{SCRAPES} scrapes with a driver that never answers ({BEFORE} before that: {idle}):"
    );
    for times in &tries {
        write!(told, "\n  {times}").expect("text");
    }
    tell("scrapes", &told);
    assert!(kept(&tries) > TRIES / 2, "{LIMIT:?} allowed: {told}");

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
