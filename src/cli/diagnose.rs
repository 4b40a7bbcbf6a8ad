//! `training-exporter diagnose`: look, wait, look again, and say of each witness whether it moved, what that makes of
//! the run, how sure that is, and what to run next.
//!
//! A running exporter is asked for the verdict, since it has seen more of the run than two looks can: its ceilings are
//! learned, and whoever worked before may be convicted by silence. Where none answers, this program is one for as long
//! as it looks: the same threads, the same fold, the same table, only without a door. It has no rule of its own.
//!
//! It disturbs nothing: it reads files, attaches to nobody, sends no signal and runs none of the commands that it
//! names. Whatever it asks is asked by threads that may be left behind, so a file system or driver that never answers
//! costs it the wait and some seconds ([`BOUND`]), not the answer.
//!
//! | exit code | means |
//! |---|---|
//! | 0 | healthy: within its ceilings, and something moved (an idle validation, too) |
//! | 1 | hung, or a rank is lost |
//! | 2 | wrong arguments, or it could not be looked |
//! | 3 | not told: late without proof, nothing moved but not late either, not judged, or too little can be seen |
//! | 4 | no such run: nobody writes the log, or no exporter knows it |
//! | 5 | over: finished, cancelled, preempted, failed or vanished; the verdict says which |
//! | 6 | suspended: all its processes are stopped |
//!
//! Of several runs, the code is that of the one that needs somebody most. `--json` prints one `Report` (in `report`).

mod ask;
mod looks;
mod moved;
mod next;
mod print;
mod report;
mod watch;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::ask::{Answer, Exporter, RunSaid};
use self::looks::Sight;
use self::report::{Diagnosis, Outcome, Report};
use self::watch::Watch;
use super::node::Node;
use super::web::{PORT, addresses};
use crate::config::{Config, LogSource};
use crate::node::procfs::outlet::log_of;
use crate::node::procfs::standing::Standing;

/// It takes at most so much longer than the wait: asking an exporter, the first look, the last one.
pub const BOUND: Duration = Duration::from_secs(30);
/// The first look is waited for so long, and the last one after the wait.
const FIRST: Duration = Duration::from_secs(5);
const LAST: Duration = Duration::from_secs(2);
/// A look at single processes, or at the way from a process to its log.
const GLANCE: Duration = Duration::from_secs(2);
/// Between two looks at whether the wait is over.
const TICK: Duration = Duration::from_millis(100);
/// The exit code of an error.
pub const ERROR: u8 = 2;

const EXIT_CODES: &str = "\
Exit codes:
  0  healthy: within its ceilings, and something moved (an idle validation, too)
  1  hung, or a rank is lost
  2  wrong arguments, or it could not be looked
  3  not told: late without proof, nothing moved but not late either, not judged, or too little can be seen
  4  no such run: nobody writes the log, or no exporter knows it
  5  over: finished, cancelled, preempted, failed or vanished; the verdict says which
  6  suspended: all its processes are stopped

It only reads: no signal, no debugger, no command is run.";

/// Arguments of `diagnose`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    /// A run of the exporter, by the name on its page (what follows the @ may be left out). Without it: all of them.
    run: Option<String>,
    /// The log of the training, if no exporter follows it.
    #[arg(long = "log.path", value_name = "FILE", conflicts_with = "run")]
    log_path: Option<PathBuf>,
    /// A process of the training: its log is where its output goes.
    #[arg(long, conflicts_with_all = ["run", "log_path"])]
    pid: Option<u32>,
    /// How long to look, such as 30s or 5m. Rare reads need longer.
    #[arg(long, default_value = "60s", value_parser = length)]
    wait: Duration,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Where the exporter is asked [default: http://127.0.0.1:9841].
    #[arg(long, value_name = "URL", conflicts_with_all = ["listen", "alone"])]
    url: Option<String>,
    /// The same, as the address that the exporter listens on.
    #[arg(
        long = "web.listen-address",
        value_name = "ADDRESS",
        env = "TRAINING_EXPORTER_WEB_LISTEN_ADDRESS"
    )]
    listen: Option<String>,
    /// Ask no exporter.
    #[arg(long)]
    alone: bool,
    /// Configuration of the exporter, for its logs, presets and limits, where none is asked.
    #[arg(long = "config.file", value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// Folder of validation samples, for the log given; may be given several times.
    #[arg(long = "val.data", value_name = "DIR")]
    val_data: Vec<PathBuf>,
    /// This node.
    #[command(flatten)]
    node: Node,
}

/// From a second, which the kernel's clock ticks need, to an hour.
fn length(text: &str) -> Result<Duration, String> {
    let wait = humantime::parse_duration(text).map_err(|e| format!("{e}; such as 60s or 5m"))?;
    if (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&wait) {
        Ok(wait)
    } else {
        Err("write a length of time from 1s to 1h".to_owned())
    }
}

/// Looks, waits, looks again, and prints what that says. An error is told by the caller, with [`ERROR`] as exit code.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    let report = diagnose(args)?;
    let text = if args.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        print::text(&report)
    };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Whoever read our output has seen enough; the exit code still stands.
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e.into()),
        Ok(()) | Err(_) => Ok(ExitCode::from(report.exit_code)),
    }
}

fn diagnose(args: &Args) -> Result<Report> {
    let log = args.log()?;
    let exporter = Exporter::new(&args.exporter()?);
    let asked = if args.alone {
        Err("no exporter was asked".to_owned())
    } else {
        exporter.ask()
    };
    let own = log.is_some() || args.config_file.is_some();
    let mut report = Report::new(exporter.url());
    match asked {
        Ok(answer) => {
            let chosen = answer.choose(args.run.as_deref(), log.as_deref());
            if !chosen.is_empty() {
                report.source = "exporter";
                let here = exporter.is_here().then_some(chosen.as_slice());
                let watch = here.map(|runs| Watch::beside(runs, args)).transpose()?;
                let names = chosen.iter().map(|run| run.run.clone()).collect();
                look_twice(&mut report, args, names, watch.as_ref(), || exporter.ask());
                return Ok(report);
            }
            report.note = match (&log, answer.runs.is_empty()) {
                (Some(log), _) => format!("the exporter does not follow {}", log.display()),
                (None, true) => {
                    "the exporter has found no run; give --log.path or --pid".to_owned()
                }
                (None, false) => format!("the exporter knows {}", answer.names()),
            };
        }
        Err(why) => {
            report.note = why;
            if !own {
                report.note += "; give --log.path or --pid to look without one";
            }
        }
    }
    if !own {
        return Ok(report.of_nobody());
    }
    let watch = Watch::alone(args.config(log.as_deref())?, args)?;
    let names = watch.names(args.run.as_deref());
    if names.is_empty() {
        if !watch.answers() {
            bail!("the logs, or their file system, do not answer");
        }
        report.note += "; and no such log is there";
        return Ok(report.of_nobody());
    }
    look_twice(&mut report, args, names, Some(&watch), || {
        watch.answer().map_err(|e| format!("{e:#}"))
    });
    Ok(report)
}

/// The two looks at these runs, with the wait between them. `ask` gives the verdicts.
fn look_twice(
    report: &mut Report,
    args: &Args,
    names: Vec<String>,
    watch: Option<&Watch>,
    ask: impl Fn() -> Result<Answer, String>,
) {
    let began = clock();
    let look = |answer: &Result<Answer, String>| -> Vec<Sight> {
        let said = |name: &str| answer.as_ref().ok()?.run(name).cloned();
        let sight = |name: &String| Sight::new(said(name), watch, name);
        let mut sights: Vec<Sight> = names.iter().map(sight).collect();
        stand(&mut sights, &args.node.procfs);
        sights
    };
    let before = look(&ask());
    let over = |runs: &[RunSaid]| runs.iter().all(RunSaid::is_over);
    let first: Vec<RunSaid> = before
        .iter()
        .filter_map(|sight| sight.said.clone())
        .collect();
    if first.len() < names.len() || !over(&first) {
        wait(args.wait, began, &names);
        if let Some(watch) = watch {
            let limit = clock() + LAST;
            while clock() < limit && !names.iter().all(|name| watch.has_judged(name)) {
                thread::sleep(TICK);
            }
        }
    }
    let answer = ask();
    let after = look(&answer);
    report.seconds = (clock() - began).as_secs_f64();
    report.cannot_see = answer
        .as_ref()
        .map(|answer| answer.blind())
        .unwrap_or_default();
    if let Err(why) = answer {
        report.note = format!("the second look got no answer: {why}");
    }
    for ((name, before), after) in names.iter().zip(&before).zip(&after) {
        let alone = report.source == "alone";
        let diagnosis = Diagnosis::of(name, before, after, report.seconds, alone);
        report.runs.push(diagnosis);
    }
    report.exit_code = Outcome::worst(report.runs.iter().map(|run| run.outcome)).code();
}

/// Looks at the single processes of the runs.
fn stand(sights: &mut [Sight], procfs: &Path) {
    let pids: Vec<Vec<u32>> = sights.iter().map(Sight::pids).collect();
    let procfs = procfs.to_owned();
    let stood = within(GLANCE, move || {
        let all = |pids: &Vec<u32>| -> Vec<Standing> {
            pids.iter()
                .filter_map(|&pid| Standing::of(&procfs, pid))
                .collect()
        };
        pids.iter().map(all).collect::<Vec<_>>()
    });
    for (sight, standing) in sights.iter_mut().zip(stood.into_iter().flatten()) {
        sight.standing = standing;
    }
}

/// Waits, and on a terminal says so.
fn wait(length: Duration, began: Instant, names: &[String]) {
    let mut err = io::stderr().lock();
    let terminal = err.is_terminal();
    let what = match names {
        [one] => print::plain(one),
        many => format!("{} runs", many.len()),
    };
    while let passed = clock() - began
        && passed < length
    {
        if terminal {
            let (passed, length) = (passed.as_secs(), length.as_secs());
            // A terminal that is gone is no reason to stop.
            let _ = write!(err, "\r\x1b[Kwatching {what}: {passed} of {length} s");
            let _ = err.flush();
        }
        thread::sleep(TICK.min(length - passed));
    }
    if terminal {
        let _ = write!(err, "\r\x1b[K");
    }
}

/// Asks somebody who may never answer; then the thread is left behind.
fn within<T: Send + 'static>(
    patience: Duration,
    ask: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = sync_channel(1);
    thread::spawn(move || tell.send(ask()));
    told.recv_timeout(patience).ok()
}

#[expect(clippy::disallowed_methods, reason = "a command's clock")]
fn clock() -> Instant {
    Instant::now()
}

impl Args {
    /// The log that is looked at, if one was named.
    fn log(&self) -> Result<Option<PathBuf>> {
        if let Some(path) = &self.log_path {
            return Ok(Some(std::path::absolute(path)?));
        }
        let Some(pid) = self.pid else {
            return Ok(None);
        };
        let procfs = self.node.procfs.clone();
        let found = within(GLANCE, move || log_of(&procfs, pid));
        let found = found.context("the file system of the process's log does not answer")?;
        match found {
            Err(_) if !self.node.procfs.join(pid.to_string()).exists() => {
                bail!("there is no process {pid}")
            }
            Ok(Some(log)) => Ok(Some(log)),
            Ok(None) => bail!("process {pid} writes its output to no file: give --log.path"),
            Err(e) => Err(e).with_context(|| {
                format!(
                    "where process {pid} writes cannot be seen: run this as its user or with CAP_SYS_PTRACE, or give \
                     --log.path"
                )
            }),
        }
    }

    /// Where the exporter is asked.
    fn exporter(&self) -> Result<String> {
        if let Some(url) = &self.url {
            return Ok(url.trim_end_matches('/').to_owned());
        }
        let own = format!("127.0.0.1:{PORT}");
        let given = self.listen.as_deref().unwrap_or(&own);
        let mut at = addresses(given)?.pop().context("no such address")?;
        if at.ip().is_unspecified() {
            at.set_ip([127, 0, 0, 1].into());
        }
        Ok(format!("http://{at}"))
    }

    /// What to look at without an exporter: the log that was named, with what the configuration says of it; else all
    /// logs of the configuration.
    fn config(&self, log: Option<&Path>) -> Result<Config> {
        let mut config = match &self.config_file {
            Some(path) => Config::load(path)?,
            None => Config::default(),
        };
        // What is looked at on purpose is never too old.
        config.limits.retention = f64::INFINITY;
        if let Some(log) = log {
            let path = log.to_string_lossy();
            let known = config.logs.iter().find(|source| {
                source.path == path
                    || glob::Pattern::new(&source.path).is_ok_and(|all| all.matches(&path))
            });
            let mut source = known.cloned().unwrap_or_else(|| LogSource::path(&*path));
            source.path = path.into_owned();
            source.val_data.extend(self.val_data.iter().cloned());
            config.logs.clear();
            config.add(source)?;
        }
        Ok(config)
    }
}
