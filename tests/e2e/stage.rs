//! One node: the exporter's binary, a driver of four GPUs, and a training of two ranks that can be told to hang. All of
//! it ends with the node, in a panic as well, and by itself should the test be killed.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fake_nvml::Fake;
use serde_json::Value;
use tempfile::TempDir;

use super::programs::{exporter, now, serve, signal, since_epoch, wait};
use super::support::{Running, get, value};

/// What the limits of these nodes are, in seconds; and so many files are in a folder of samples.
pub(crate) const START: f64 = 12.0;
const LIMITS: &str = "
  train: {lower: 8, start: 12}
  validation: {lower: 8, start: 12}
  checkpoint: {lower: 12, start: 18}
  init: {lower: 60, start: 60}
  quiet: {lower: 6, start: 10}
  unseen_validation: 480
  work_window: 6
  patience: 240
";
const FILES: usize = 600;
const SAMPLE: usize = 64 * 1024;
const GPUS: usize = 4;

/// How a validation is made to hang.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Hang {
    /// Rank 0 reads a file that does not answer.
    Read,
    /// Rank 1 is stopped.
    Stop,
    /// Rank 0 takes a lock twice.
    Lock,
}

/// What is known of the validation besides its processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Data {
    /// The folder, and how many files a whole pass opens.
    Counted,
    /// The folder.
    Watched,
    /// Nothing.
    Unseen,
}

/// A node and its training.
pub(crate) struct Node {
    pub(crate) run: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) hang: Hang,
    /// Holds the file that does not answer open, until it does.
    silent: Option<File>,
    /// Since when its GPUs have nothing to do.
    resting: f64,
    _trainer: Trainer,
    _exporter: Running,
    fake: Fake,
    folder: TempDir,
}

impl Node {
    pub(crate) fn start(python: &str, run: &'static str, hang: Hang, data: Data) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: &str| folder.path().join(name);
        for (name, files) in [("train", 8), ("val", FILES)] {
            fs::create_dir(place(name)).expect("a folder");
            for n in 0..files {
                let sample = place(name).join(format!("sample-{n:04}.bin"));
                fs::write(sample, vec![n as u8; SAMPLE]).expect("a sample");
            }
        }
        let silent = place("val").join("sample.fifo");
        let made = Command::new("mkfifo").arg(&silent).status();
        assert!(made.expect("mkfifo").success());
        // For reading as well, so that it need not wait for a reader.
        let silent = OpenOptions::new()
            .read(true)
            .write(true)
            .open(silent)
            .expect("a FIFO");

        let fake = Fake::install(folder.path()).expect("the fake is built");
        let val = place("val").display().to_string();
        let data = match data {
            Data::Counted => format!("    val_data: ['{val}']\n    val_files: {FILES}\n"),
            Data::Watched => format!("    val_data: ['{val}']\n"),
            Data::Unseen => String::new(),
        };
        let log = place("train.log").display().to_string();
        let config = format!(
            "logs:\n  - path: '{log}'\n    run: {run}\n    user: ada\n    team: speech\n{data}limits:{LIMITS}"
        );
        fs::write(place("config.yml"), config).expect("a config");
        let (exporter, address) = serve("/-/ready", |address| {
            exporter(
                address,
                &fake,
                &["--config.file", &place("config.yml").to_string_lossy()],
            )
        });
        fs::write(place("order"), "train").expect("an order");
        let trainer = Trainer::start(python, folder.path());
        let mut node = Self {
            run,
            address,
            hang,
            silent: Some(silent),
            resting: f64::INFINITY,
            _trainer: trainer,
            _exporter: exporter,
            fake,
            folder,
        };
        node.work();
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Tells the training what to do.
    pub(crate) fn order(&self, what: &str) {
        fs::write(self.path("order.new"), what).expect("an order");
        fs::rename(self.path("order.new"), self.path("order")).expect("an order");
    }

    /// The GPUs do what they do in training.
    pub(crate) fn work(&mut self) {
        self.gpus(97, 380_000);
    }

    /// The GPUs have nothing to do.
    pub(crate) fn rest(&mut self) {
        self.gpus(0, 80_000);
        self.resting = now();
    }

    /// Work of a GPU that is at rest was seen.
    pub(crate) fn saw_false_work(&self) -> bool {
        // The driver is asked each second, and a machine may be busy.
        let worked = self.metric("training_last_gpu_work_timestamp_seconds", "");
        worked.is_none_or(|worked| worked > self.resting + 10.0)
    }

    /// Each rank holds two GPUs.
    fn gpus(&mut self, percent: u32, milliwatts: u32) {
        let ranks = [self.rank(0), self.rank(1)];
        let scenario = &mut self.fake.scenario;
        scenario.set("count", GPUS);
        for gpu in 0..GPUS {
            let rank = ranks[gpu * ranks.len() / GPUS];
            scenario
                .set(&format!("{gpu}.procs"), format!("{rank}:4294967296"))
                .set(&format!("{gpu}.util"), percent)
                .set(&format!("{gpu}.power_mw"), milliwatts);
        }
        scenario.write().expect("written");
    }

    /// A rank's process.
    fn rank(&self, number: usize) -> u32 {
        let path = self.path(&format!("rank.{number}"));
        wait(
            30.0,
            || fs::read_to_string(&path).ok()?.parse().ok(),
            || format!("rank {number} of {}", self.run),
        )
    }

    /// The validation hangs.
    pub(crate) fn hang(&self) {
        match self.hang {
            Hang::Read => self.order(&format!("read {}", self.path("val/sample.fifo").display())),
            Hang::Stop => signal("STOP", self.rank(1)),
            Hang::Lock => self.order("lock"),
        }
    }

    /// It goes on.
    pub(crate) fn go_on(&mut self) {
        self.order("validate");
        match self.hang {
            Hang::Read => {
                let mut silent = self.silent.take().expect("held open");
                silent.write_all(&[0; SAMPLE]).expect("room for one sample");
            }
            Hang::Stop => signal("CONT", self.rank(1)),
            Hang::Lock => signal("USR1", self.rank(0)),
        }
    }

    /// When a rank last had read a file, as it says itself.
    pub(crate) fn last_read(&self) -> f64 {
        let read = |rank| {
            fs::read_to_string(self.path(&format!("read.{rank}")))
                .ok()?
                .parse()
                .ok()
        };
        [read(0), read(1)]
            .into_iter()
            .flatten()
            .fold(f64::NEG_INFINITY, f64::max)
    }

    /// For how long the log has been silent, by its file.
    pub(crate) fn log_silence(&self) -> f64 {
        let written = fs::metadata(self.path("train.log")).and_then(|log| log.modified());
        now() - since_epoch(written.expect("a log"))
    }

    /// The value of a series of this run; `labels` may be empty.
    pub(crate) fn metric(&self, name: &str, labels: &str) -> Option<f64> {
        let (_, page) = get(self.address, "/metrics");
        let comma = if labels.is_empty() { "" } else { "," };
        value(
            &page,
            &format!("{name}{{run=\"{}\"{comma}{labels}}}", self.run),
        )
    }

    pub(crate) fn in_phase(&self, phase: &str) -> bool {
        self.metric("training_phase", &format!("phase=\"{phase}\"")) == Some(1.0)
    }

    /// The node's own view of its run.
    pub(crate) fn view(&self) -> Value {
        let (_, view) = get(self.address, "/api/v1/runs");
        let view: Value = serde_json::from_str(&view).expect("JSON");
        view["runs"][0].clone()
    }
}

/// The launcher, and its process group.
struct Trainer(Child);

impl Trainer {
    fn start(python: &str, folder: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/trainer.py");
        let log = File::create(folder.join("train.log")).expect("a log");
        let child = Command::new(python)
            .args(["-S", "-E"])
            .args([script.as_path(), folder])
            .env_remove("RANK")
            .env_remove("LOCAL_RANK")
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a log"))
            .stdout(log)
            .process_group(0)
            .spawn();
        Self(child.expect("python"))
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        // The ranks as well, also one that is stopped.
        let _ = Command::new("kill")
            .args(["-KILL", "--", &format!("-{}", self.0.id())])
            .status();
        let _ = self.0.wait();
    }
}
