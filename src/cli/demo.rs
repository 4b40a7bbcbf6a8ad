//! `training-exporter demo`: the real threads and the real server on a simulated node, which replays recorded runs.
//!
//! A folder of its own takes the place of the node's disk: the log grows there with the recorded timing, and the
//! recorded validation files are really opened. GPUs and processes answer from the recording. All times, and so all
//! ceilings, run faster by one factor.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::serve;
use super::web::{PORT, listen};
use crate::config::{Config, LogSource};
use crate::job::Unix;
use crate::job::cadence::Limits;
use crate::node::gpu::{Gpu, Gpus};
use crate::node::process::{Processes, Seen};
use crate::run::{self, Pace, Sources, now};
use crate::scenario::recording::Files;
use crate::scenario::{Node, Run};
use crate::state::Shared;
use crate::web::Settings;
use crate::web::view::{RunView, View};

/// How often the simulated disk moves, and how often the terminal is told.
const TICK: Duration = Duration::from_millis(20);
const TELL: Duration = Duration::from_millis(250);

/// Arguments of `demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What to play: eagle3.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "eagle3",
        hide_default_value = true
    )]
    scenario: String,
    /// How many times faster than recorded.
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    speed: f64,
    /// Address to listen on [default: 127.0.0.1:9841].
    #[arg(long = "web.listen-address", value_name = "ADDRESS")]
    listen: Option<String>,
}

/// A node in virtual time, asked by the clock.
#[derive(Clone)]
struct Simulated {
    node: Arc<Node>,
    began: Unix,
    speed: f64,
}

impl Simulated {
    /// The virtual second.
    fn time(&self) -> Unix {
        (now() - self.began) * self.speed
    }
}

impl Gpus for Simulated {
    fn read(&mut self) -> Result<Vec<Gpu>> {
        let mut gpus = self.node.gpus(self.time());
        // What integrates over time does so over the time that others see.
        for gpu in &mut gpus {
            gpu.energy_joules = gpu.energy_joules.map(|joules| joules / self.speed);
            gpu.busy_seconds = gpu.busy_seconds.map(|seconds| seconds / self.speed);
        }
        Ok(gpus)
    }
}

impl Processes for Simulated {
    fn read(&mut self, log: &Path) -> Result<Seen> {
        let name = log.file_stem().unwrap_or_default().to_string_lossy();
        Ok(self
            .node
            .run(&name)
            .map_or_else(Seen::default, |run| run.processes(self.time())))
    }
}

/// Plays until SIGTERM or SIGINT.
pub fn run(args: &Args) -> Result<()> {
    if !(args.speed.is_finite() && (1.0..=100.0).contains(&args.speed)) {
        bail!("--speed {}: expected a number from 1 to 100", args.speed);
    }
    let node = Arc::new(Node::built_in(&args.scenario).map_err(|e| anyhow!(e))?);
    let runtime = serve::runtime()?;
    let default = format!("127.0.0.1:{PORT}");
    let listeners = runtime.block_on(listen(args.listen.as_slice(), &default))?;
    let address = listeners[0].local_addr()?;
    let disk = tempfile::Builder::new()
        .prefix("training-exporter-demo-")
        .tempdir()
        .context("no temporary folder")?;
    let mut players = Vec::new();
    let mut logs = Vec::new();
    for run in &node.runs {
        let player = Player::new(disk.path(), run)?;
        logs.push(LogSource {
            run: Some(run.name.clone()),
            val_data: vec![player.data.clone()],
            val_files: Some(run.val_files),
            user: "demo".to_owned(),
            // A pattern: the log is not there before its run begins.
            ..LogSource::path(format!("{}/{}*.log", disk.path().display(), run.name))
        });
        players.push(player);
    }
    let config = Config {
        logs,
        limits: Limits::default().faster(args.speed),
        ..Config::default()
    };
    let shared = Shared::default();
    let simulated = Simulated {
        node,
        began: now(),
        speed: args.speed,
    };
    let sources = Sources {
        gpus: Some(Box::new(simulated.clone())),
        processes: Some(Box::new(simulated.clone())),
    };
    say(&greeting(
        &simulated.node.about,
        args.speed,
        &address.to_string(),
        disk.path(),
    ))?;
    let threads = run::start(Arc::new(config), sources, Pace::faster(args.speed), &shared)?;
    let (stop, stopped) = channel();
    let (told_stop, told) = channel();
    let playing = {
        let simulated = simulated.clone();
        thread::Builder::new()
            .name("disk".to_owned())
            .spawn(move || play(&simulated, players, &stopped))?
    };
    let telling = {
        let shared = shared.clone();
        thread::Builder::new()
            .name("terminal".to_owned())
            .spawn(move || tell(&simulated, &shared, &told))?
    };
    // A closed terminal ends what belongs to it.
    let mut hangups = runtime.block_on(async { serve::hangups() })?;
    let closed = async {
        hangups.recv().await;
    };
    let settings = Settings::default();
    runtime.block_on(serve::until_told(listeners, &shared, &settings, closed))?;
    drop((stop, told_stop));
    playing
        .join()
        .map_err(|_| anyhow!("the simulated disk panicked"))??;
    telling
        .join()
        .map_err(|_| anyhow!("the terminal's thread panicked"))??;
    threads.stop(Duration::from_secs(2));
    Ok(())
}

fn greeting(about: &str, speed: f64, address: &str, disk: &Path) -> String {
    format!(
        "{about}\n\
         Played {speed} times faster; all ceilings are divided by {speed}, too.\n\
         \n\
         \x20 status page  http://{address}/\n\
         \x20 metrics      http://{address}/metrics\n\
         \x20 its log      {}/*.log\n\
         \n\
         Stamps below are recorded seconds; all other times, there and on the page, are real ones.\n\
         What to see: in both runs the validation writes no byte to the log and the GPUs stand at 0 %. In the first the\n\
         page says \"Validating, GPUs idle as expected\" and training_val_progress_ratio rises. In the second it stops in\n\
         the middle, and the page says \"Hung\" and why. Ctrl-C ends it.\n\n",
        disk.display(),
    )
}

/// The log and the validation files of one run.
struct Player {
    run: Run,
    log: PathBuf,
    data: PathBuf,
    open: Option<File>,
    written: usize,
    files: Files,
}

impl Player {
    fn new(disk: &Path, run: &Run) -> Result<Self> {
        let data = disk.join(format!("{}-validation", run.name));
        fs::create_dir(&data)?;
        for index in 0..run.val_files {
            File::create(sample(&data, index))?;
        }
        let log = disk.join(format!("{}.log", run.name));
        Ok(Self {
            run: run.clone(),
            log,
            data,
            open: None,
            written: 0,
            files: Files::default(),
        })
    }

    /// Brings the disk to the virtual second `t`.
    fn advance(&mut self, t: Unix) -> io::Result<()> {
        if t < self.run.starts {
            return Ok(());
        }
        let bytes = self.run.log(t);
        let file = match &mut self.open {
            Some(file) => file,
            None => self.open.insert(File::create(&self.log)?),
        };
        file.write_all(&bytes[self.written..])?;
        self.written = bytes.len();
        let files = self.run.files(t);
        let from = if files.pass == self.files.pass {
            self.files.opened
        } else {
            0
        };
        for index in from..files.opened {
            File::open(sample(&self.data, index))?;
        }
        self.files = files;
        Ok(())
    }
}

fn sample(data: &Path, index: u64) -> PathBuf {
    data.join(format!("sample_{index:05}.pt"))
}

fn play(simulated: &Simulated, mut players: Vec<Player>, stop: &Receiver<()>) -> Result<()> {
    while stop.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        let t = simulated.time();
        for player in &mut players {
            player
                .advance(t)
                .with_context(|| format!("cannot play {}", player.log.display()))?;
        }
    }
    Ok(())
}

/// Tells each new verdict in a line of its own, and between them, on a terminal, how far things are.
fn tell(simulated: &Simulated, shared: &Shared, stop: &Receiver<()>) -> Result<()> {
    let terminal = io::stdout().is_terminal();
    let mut known: Vec<(String, String)> = Vec::new();
    while stop.recv_timeout(TELL) == Err(RecvTimeoutError::Timeout) {
        let view = View::of(&shared.lock(), now());
        let t = simulated.time();
        // A log that was just taken up has said nothing yet.
        for run in view.runs.iter().filter(|run| run.log.bytes > 0) {
            let news = (run.run.clone(), format!("{} {}", run.verdict, run.phase));
            if !known.contains(&news) {
                known.retain(|(name, _)| *name != run.run);
                known.push(news);
                let clear = if terminal { "\r\x1b[K" } else { "" };
                say(&format!(
                    "{clear}{t:>6.0} s  {}: {}\n",
                    run.run, run.headline
                ))?;
                if run.level == "critical" {
                    say(&format!(
                        "          why: {}\n          The demo goes on serving this page; Ctrl-C ends it.\n",
                        run.because
                    ))?;
                }
            }
        }
        let newest = view
            .runs
            .iter()
            .filter(|run| run.phase != "finished")
            .max_by_key(|run| run.log.last_write_age.is_some());
        if let Some(run) = newest.filter(|_| terminal) {
            say(&format!("\r\x1b[K{t:>6.0} s  {}", progress_line(run)))?;
        }
    }
    Ok(())
}

fn progress_line(run: &RunView) -> String {
    let gpu = run.gpus.first().and_then(|gpu| {
        Some(format!(
            "{:.0} % {:.0} W",
            100.0 * gpu.util?,
            gpu.power_watts?
        ))
    });
    let validation = run
        .validation
        .and_then(|validation| validation.ratio)
        .map(|ratio| format!("{:.1} %", 100.0 * ratio));
    format!(
        "phase {}  validation {}  log {} bytes  GPU {}  verdict {}",
        run.phase,
        validation.as_deref().unwrap_or("-"),
        run.log.bytes,
        gpu.as_deref().unwrap_or("-"),
        run.verdict,
    )
}

/// Writes to stdout; that nobody reads it any more is no fault of the demo.
fn say(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}
