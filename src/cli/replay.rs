//! `training-exporter replay`: what a log says, change by change, through the very calls that `serve` makes.

mod summary;
mod text;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use serde::Serialize;

use crate::config::{load_preset, read};
use crate::job::cadence::Limits;
use crate::job::observation::Observation;
use crate::job::{Job, Unix};
use crate::log::blocks::Blocks;
use crate::log::follow::open;
use crate::log::lines::{Line, Lines};
use crate::log::preset::Preset;
use crate::log::reader::{Presets, Reader};
use crate::scenario::recording::timeline;
use summary::Summary;
use text::Text;

/// How long an unfinished last line must rest before it is judged, in seconds.
pub const REST: f64 = 0.15;

/// So much of a log is read at a time, in bytes.
const CHUNK: usize = 64 * 1024;

/// Longer lines are cut, in characters.
const WIDTH: usize = 110;

/// Arguments of `replay`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// When the bytes came: lines of `seconds TAB byte offset`, as a recorder wrote them. Without it no times are told.
    #[arg(long, value_name = "TSV")]
    timeline: Option<PathBuf>,
    /// Read the log by this preset, whatever its first lines show: a name, or a file of one's own.
    #[arg(long, value_name = "NAME|FILE")]
    preset: Option<String>,
    /// `jsonl` for programs, `text` for people.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// In the text, a row for each change: else steps and batches that only go up are two rows, the first and the last.
    #[arg(long)]
    all: bool,
    /// The log; `-` is the standard input.
    log: PathBuf,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Jsonl,
    Text,
}

/// What is believed at one moment; what is not known is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
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

impl Belief {
    /// What is believed beside the numbers that go up with the work.
    fn without_counts(self) -> Self {
        Self {
            step: None,
            val_done: None,
            recompile_count: 0,
            ..self
        }
    }
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
        text: Text::new(args.all),
        format: args.format,
        timed: args.timeline.is_some(),
        at: 0.0,
        numbers: Numbers::default(),
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
            replay.numbers.grew(&chunk[..n]);
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
        replay.text.rest(replay.out)?;
        let framework = replay.reader.framework().unwrap_or("not recognised");
        writeln!(replay.out, "{taken} bytes read, framework {framework}")?;
        if replay.blocks.buffered() == Some(true) {
            writeln!(
                replay.out,
                "it came in blocks: the training's stdout is buffered"
            )?;
        }
        let end = replay.timed.then_some(replay.at);
        replay.summary.print(end, replay.out)?;
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
    text: Text,
    format: Format,
    /// It is known when the bytes came.
    timed: bool,
    at: Unix,
    numbers: Numbers,
    out: &'a mut dyn Write,
    failed: io::Result<()>,
}

impl Replay<'_> {
    fn take(&mut self, line: &Line<'_>) {
        let number = self.numbers.of(line.end);
        let mut all = Vec::new();
        self.reader
            .read(line, &mut |said| all.push((said.to_string(), said)));
        self.summary.line(&line.text[line.seen..], &all);
        let (mut said, mut told, mut fault) = (Vec::new(), false, false);
        for (words, observation) in all {
            self.blocks.told(&observation);
            let is_told = text::is_told(&observation);
            let is_value = matches!(observation, Observation::Value { .. });
            (told, fault) = (told || is_told, fault || text::is_fault(&observation));
            self.job.apply(observation, self.at);
            let now = belief(&self.job);
            let changed = now != self.believed;
            self.believed = now;
            if changed {
                self.summary.phase(now.phase, self.at);
                if self.format == Format::Jsonl && self.failed.is_ok() {
                    self.failed = self.json(line.end);
                }
            }
            if is_told || changed && !is_value {
                said.push(words);
            }
        }
        if self.format == Format::Text && !said.is_empty() && self.failed.is_ok() {
            let row = text::Row {
                at: self.timed.then_some(self.at),
                number,
                belief: self.believed,
                said,
                quoted: fault.then(|| line.text.to_owned()),
                told,
            };
            self.failed = self.text.row(row, self.out);
        }
    }

    fn json(&mut self, offset: u64) -> io::Result<()> {
        let row = Row {
            t: self.at,
            offset,
            belief: &self.believed,
        };
        writeln!(self.out, "{}", serde_json::to_string(&row)?)
    }
}

/// Numbers the lines of the file, as an editor does, by the offsets of their ends.
#[derive(Debug, Default)]
struct Numbers {
    taken: u64,
    /// Line ends in all that was taken, and where those of the newest part are.
    before: u64,
    ends: Vec<u64>,
}

impl Numbers {
    /// The next bytes of the file.
    fn grew(&mut self, bytes: &[u8]) {
        self.before += self.ends.len() as u64;
        let ends = memchr::memchr_iter(b'\n', bytes).map(|at| self.taken + at as u64 + 1);
        self.ends = ends.collect();
        self.taken += bytes.len() as u64;
    }

    /// The number of the line whose last byte is before this offset.
    fn of(&self, end: u64) -> u64 {
        1 + self.before + self.ends.partition_point(|&other| other < end) as u64
    }
}

/// As much of a line as a row has room for.
fn cut(line: &str) -> String {
    let shown = line.trim().chars().filter(|c| !c.is_control());
    shown.take(WIDTH).collect()
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
