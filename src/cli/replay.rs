//! `training-exporter replay`: what a log says, change by change, through the very calls that `serve` makes.

mod summary;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use serde::Serialize;

use crate::config::{load_preset, read};
use crate::job::cadence::Limits;
use crate::job::{Job, Unix};
use crate::log::blocks::Blocks;
use crate::log::follow::open;
use crate::log::lines::{Line, Lines};
use crate::log::preset::Preset;
use crate::log::reader::{Presets, Reader};
use crate::scenario::recording::timeline;
use summary::Summary;

/// How long an unfinished last line must rest before it is judged, in seconds.
pub const REST: f64 = 0.15;

/// So much of a log is read at a time, in bytes.
const CHUNK: usize = 64 * 1024;

/// Arguments of `replay`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// When the bytes came: lines of `seconds TAB byte offset`, as a recorder wrote them. Without it, all came at 0.
    #[arg(long, value_name = "TSV")]
    timeline: Option<PathBuf>,
    /// Read the log by this preset, whatever its first lines show: a name, or a file of one's own.
    #[arg(long, value_name = "NAME|FILE")]
    preset: Option<String>,
    /// `jsonl` for programs, `text` for people.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The log; `-` is the standard input.
    log: PathBuf,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Jsonl,
    Text,
}

/// What is believed at one moment; what is not known is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Belief {
    phase: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epochs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    val_done: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    val_total: Option<u64>,
    recompile_count: u64,
}

/// One line of `jsonl`.
#[derive(Serialize)]
struct Row<'a> {
    t: Unix,
    offset: u64,
    #[serde(flatten)]
    belief: &'a Belief,
}

/// Prints each change of what is believed.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let cannot = || format!("cannot read {}", args.log.display());
    let (mut log, length): (Box<dyn Read>, u64) = if args.log == Path::new("-") {
        (Box::new(io::stdin()), u64::MAX)
    } else {
        let log = open(&args.log).with_context(cannot)?;
        let length = log.metadata().with_context(cannot)?.len();
        (Box::new(log), length)
    };
    let appends = match &args.timeline {
        Some(path) => timeline(&read(path)?).map_err(|e| anyhow!("{}:{e}", path.display()))?,
        None => vec![(0.0, length)],
    };
    let presets = Presets::built_in();
    let named = args
        .preset
        .as_deref()
        .map(|name| preset(name, &presets))
        .transpose()?;
    let mut replay = Replay {
        job: Job::new(Limits::default()),
        reader: presets.reader(named),
        believed: Belief::default(),
        blocks: Blocks::default(),
        summary: Summary::default(),
        format: args.format,
        at: 0.0,
        out,
        failed: Ok(()),
    };
    let mut lines = Lines::default();
    let mut taken = 0;
    let mut chunk = vec![0; CHUNK];
    for (i, &(at, size)) in appends.iter().enumerate() {
        replay.at = at;
        // A timeline may go on after a truncation, whose bytes are in another file.
        let size = size.clamp(taken, length);
        let mut append = (&mut log).take(size - taken);
        let before = taken;
        loop {
            let n = append.read(&mut chunk).with_context(cannot)?;
            if n == 0 {
                break;
            }
            lines.push(&chunk[..n], &mut |line| replay.take(&line));
            taken += n as u64;
        }
        replay.blocks.grew(taken - before, at);
        if appends.get(i + 1).is_none_or(|&(next, _)| next - at > REST) {
            lines.rest(&mut |line| replay.take(&line));
        }
    }
    replay.failed?;
    if args.format == Format::Text {
        let framework = replay.reader.framework().unwrap_or("not recognised");
        writeln!(replay.out, "{taken} bytes read, framework {framework}")?;
        if replay.blocks.buffered() == Some(true) {
            writeln!(
                replay.out,
                "it came in blocks: the training's stdout is buffered"
            )?;
        }
        replay.summary.print(replay.at, replay.out)?;
    }
    Ok(())
}

/// The preset of that name, or of that file.
pub(super) fn preset(name: &str, presets: &Presets) -> Result<Arc<Preset>> {
    if Path::new(name).is_file() {
        return Ok(Arc::new(load_preset(Path::new(name), presets)?));
    }
    let chosen = presets.named(name).filter(|preset| !preset.layer);
    let known = presets.names();
    chosen
        .with_context(|| format!("no preset `{name}`, and no file of that name; known are {known}"))
}

struct Replay<'a> {
    job: Job,
    reader: Reader,
    believed: Belief,
    blocks: Blocks,
    summary: Summary,
    format: Format,
    at: Unix,
    out: &'a mut dyn Write,
    failed: io::Result<()>,
}

impl Replay<'_> {
    fn take(&mut self, line: &Line<'_>) {
        let mut all = Vec::new();
        self.reader.read(line, &mut |said| all.push(said));
        self.summary.line(line.text, !all.is_empty());
        for said in all {
            self.blocks.told(&said);
            let words = said.to_string();
            self.job.apply(said, self.at);
            let now = belief(&self.job);
            if now != self.believed {
                self.summary.phase(now.phase, self.at);
                self.believed = now;
                if self.failed.is_ok() {
                    self.failed = self.print(line.end, &words);
                }
            }
        }
    }

    fn print(&mut self, offset: u64, because: &str) -> io::Result<()> {
        match self.format {
            Format::Jsonl => {
                let row = Row {
                    t: self.at,
                    offset,
                    belief: &self.believed,
                };
                writeln!(self.out, "{}", serde_json::to_string(&row)?)
            }
            Format::Text => {
                let Belief {
                    phase,
                    epoch,
                    epochs,
                    step,
                    steps,
                    val_done,
                    val_total,
                    recompile_count,
                } = self.believed;
                let part = |word: &str, done: Option<u64>, of: Option<u64>| match (done, of) {
                    (Some(done), Some(of)) => format!("{word} {done}/{of}"),
                    (Some(done), None) => format!("{word} {done}"),
                    (None, _) => String::new(),
                };
                writeln!(
                    self.out,
                    "{:>10.2} s  {phase:<10}  {:<12}{:<18}{:<22}{:<16}<- {because}",
                    self.at,
                    part("epoch", epoch, epochs),
                    part("step", step, steps),
                    part("validation", val_done, val_total),
                    part("recompiles", Some(recompile_count).filter(|&n| n > 0), None),
                )
            }
        }
    }
}

fn belief(job: &Job) -> Belief {
    let validation = job.validation_progress();
    Belief {
        phase: job.phase.name(),
        epoch: job.epoch,
        epochs: job.epochs,
        step: job.step.map(|step| step.done),
        steps: job.step.and_then(|step| step.of),
        val_done: validation.map(|progress| progress.done),
        val_total: validation.and_then(|progress| progress.of),
        recompile_count: job.recompiles().0,
    }
}
