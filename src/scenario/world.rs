//! What is true of one node of a scenario at a virtual second, as its exporter could see it.
//!
//! Pure: recorded logs and evidence files come from a `Library`, which whoever runs the scenario brings.

use std::collections::BTreeMap;

use super::spec::time::Time;
use super::spec::{FaultKind, FileSpan, GpuSpan, LineEnd, LogSpan, Node, ProcessSpan, Run};
use crate::node::gpu::{Gpu, Xid};
use crate::node::process::{Counters, Seen};

/// Process ids of simulated runs begin here, above all that a Linux kernel gives.
pub const FIRST_PID: u32 = 5_000_000;

/// A recorded log and when it had how many bytes.
pub type RecordedLog = (Vec<u8>, Vec<(f64, u64)>);

/// Recorded material that a scenario names.
pub trait Library {
    /// A recorded log and when it had how many bytes.
    fn log(&self, name: &str) -> Result<RecordedLog, String>;
    /// Recorded counters of processes.
    fn evidence(&self, name: &str) -> Result<Vec<(f64, Counters)>, String>;
    /// When a recorded run had opened how many validation files, over all passes.
    fn files(&self, name: &str) -> Result<Vec<(f64, u64)>, String>;
}

/// What a log gained.
#[derive(Clone, Debug)]
pub enum Append {
    /// Bytes.
    Bytes(Vec<u8>),
    /// The file was moved aside, and a new one has begun.
    Rotated,
}

/// One run of a node, ready to be asked.
#[derive(Debug)]
pub struct Played {
    /// As it stands in the scenario.
    pub spec: Run,
    /// Its process, for the GPUs.
    pid: u32,
    /// When the log gained what, in order.
    appends: Vec<(f64, Append)>,
    /// The recorded counters of each span of its processes; empty for rates.
    evidence: Vec<Vec<(f64, Counters)>>,
    /// The recorded files of each span of its data files; empty for rates.
    files: Vec<Vec<(f64, u64)>>,
    /// When its machine sleeps.
    asleep: Vec<(f64, f64)>,
}

impl Played {
    /// Prepares a run of `node` that is played for `duration` seconds.
    pub fn new(
        spec: &Run,
        pid: u32,
        node: &Node,
        duration: f64,
        library: &dyn Library,
    ) -> Result<Self, String> {
        let asleep = node
            .faults
            .iter()
            .filter(|fault| fault.kind == FaultKind::Suspend);
        let asleep: Vec<(f64, f64)> = asleep
            .map(|fault| (fault.at.0, fault.until.map_or(duration, |until| until.0)))
            .collect();
        let mut appends: Vec<(f64, Append)> = Vec::new();
        for span in &spec.log {
            match &span.recorded {
                Some(name) => {
                    let (log, timeline) = library.log(name)?;
                    let mut taken = 0;
                    for (t, size) in timeline {
                        let size = usize::try_from(size)
                            .unwrap_or(usize::MAX)
                            .clamp(taken, log.len());
                        let bytes = Append::Bytes(log[taken..size].to_vec());
                        appends.push((span.at.0 + t * span.stretch, bytes));
                        taken = size;
                    }
                }
                None if span.rotated => appends.push((span.at.0, Append::Rotated)),
                None => appends.extend(lines(span, duration)),
            }
        }
        // What would have been written while the machine sleeps is written when it wakes.
        for (at, _) in &mut appends {
            let sleeps = asleep
                .iter()
                .find(|(from, until)| (*from..*until).contains(at));
            *at = sleeps.map_or(*at, |(_, until)| *until);
        }
        appends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let evidence = spec
            .processes
            .iter()
            .flatten()
            .map(|span| match &span.evidence {
                Some(name) => library.evidence(name),
                None => Ok(Vec::new()),
            });
        let files = spec.data_files.iter().flatten();
        let files = files.map(|span| match &span.recorded {
            Some(name) => library.files(name),
            None => Ok(Vec::new()),
        });
        Ok(Self {
            spec: spec.clone(),
            pid,
            appends,
            evidence: evidence.collect::<Result<_, _>>()?,
            files: files.collect::<Result<_, _>>()?,
            asleep,
        })
    }

    /// What its log gained after `from`, up to `until`.
    pub fn gained(&self, from: f64, until: f64) -> impl Iterator<Item = (f64, &Append)> {
        let first = self.appends.partition_point(|(at, _)| *at <= from);
        self.appends[first..]
            .iter()
            .take_while(move |(at, _)| *at <= until)
            .map(|(at, gained)| (*at, gained))
    }

    /// When its log was last written, at `t`.
    pub fn written(&self, t: f64) -> Option<f64> {
        let until = self.appends.partition_point(|(at, _)| *at <= t);
        self.appends[..until].last().map(|(at, _)| *at)
    }

    /// Seconds between `from` and `until` in which its machine is awake.
    fn awake(&self, from: f64, until: f64) -> f64 {
        let asleep = self
            .asleep
            .iter()
            .map(|(a, b)| (b.min(until) - a.max(from)).max(0.0));
        (until - from).max(0.0) - asleep.sum::<f64>()
    }

    /// Its processes at `t`; nothing where they are not seen.
    pub fn processes(&self, t: f64) -> Option<Seen> {
        let spans = self.spec.processes.as_ref()?;
        let mut total = Counters {
            read_bytes: Some(0.0),
            written_bytes: Some(0.0),
            ..Counters::default()
        };
        (
            total.disk_written_bytes,
            total.child_cpu_seconds,
            total.all_cpu_seconds,
        ) = (Some(0.0), Some(0.0), Some(0.0));
        for (i, span) in spans
            .iter()
            .enumerate()
            .take_while(|(_, span)| span.at.0 <= t)
        {
            let end = spans.get(i + 1).map_or(t, |next| next.at.0.min(t));
            let recorded = &self.evidence[i];
            if recorded.is_empty() {
                rates(&mut total, span, self.awake(span.at.0, end));
            } else {
                let seconds = self.awake(span.at.0, end) / span.stretch;
                replay(&mut total, span, recorded, seconds);
            }
        }
        let pids = if total.processes > 0 {
            vec![self.pid]
        } else {
            Vec::new()
        };
        Some(Seen {
            pids,
            counters: total,
            ..Seen::default()
        })
    }

    /// Distinct validation files opened by `t`, over all passes; nothing where no folder is watched.
    pub fn opened(&self, t: f64) -> Option<u64> {
        let spans = self.spec.data_files.as_ref()?;
        let opened = spans
            .iter()
            .enumerate()
            .take_while(|(_, span)| span.at.0 <= t)
            .map(|(i, span)| {
                let end = spans.get(i + 1).map_or(t, |next| next.at.0.min(t));
                opened(span, &self.files[i], self.awake(span.at.0, end))
            });
        Some(opened.sum::<f64>() as u64)
    }
}

/// Files that are opened within so many seconds of a span.
fn opened(span: &FileSpan, recorded: &[(f64, u64)], seconds: f64) -> f64 {
    let seen = recorded.partition_point(|(at, _)| at * span.stretch <= seconds);
    match recorded[..seen].last() {
        Some((_, total)) => *total as f64,
        None => span.rate * seconds,
    }
}

/// The boards of a node at `t`, as an exporter that was born at `born` sees them; `clock` is the node's.
pub fn gpus(
    node: &Node,
    runs: &[Played],
    born: f64,
    t: f64,
    clock: impl Fn(f64) -> f64,
) -> Option<Vec<Gpu>> {
    let boards = node.gpus.as_ref()?;
    let live: Vec<&Played> = runs
        .iter()
        .filter(|run| {
            run.processes(t)
                .is_none_or(|seen| seen.counters.processes > 0)
        })
        .collect();
    let board = |index: u32| {
        let holds = |span: &&GpuSpan| {
            span.at.0 <= t && span.only.as_ref().is_none_or(|only| only.contains(&index))
        };
        let span = boards.spans.iter().rfind(holds);
        let mut xids = BTreeMap::new();
        let begun = boards.spans.iter().filter(|span| {
            let here = span.only.as_ref().is_none_or(|only| only.contains(&index));
            here && born <= span.at.0 && span.at.0 <= t
        });
        for (at, xid) in begun.flat_map(|span| span.xids.iter().map(|xid| (span.at.0, *xid))) {
            let seen: &mut Xid = xids.entry(xid).or_default();
            seen.count += 1;
            seen.last = clock(at);
        }
        let on_it = |run: &&&Played| {
            run.spec
                .gpus
                .as_ref()
                .is_none_or(|gpus| gpus.contains(&index))
        };
        Gpu {
            index,
            uuid: format!("GPU-{}-{index}", node.name),
            up: span.is_none_or(|span| !span.lost),
            mig_mode: if boards.mig { "enabled" } else { "disabled" }.to_owned(),
            util: span.and_then(|span| span.util),
            memory_used_bytes: span.and_then(|span| span.memory_used_bytes),
            memory_capacity_bytes: boards.memory_bytes,
            xids,
            power_watts: span.and_then(|span| span.watts),
            power_limit_watts: Some(boards.limit_watts),
            pids: Some(live.iter().filter(on_it).map(|run| run.pid).collect()),
            ..Gpu::default()
        }
    };
    Some((0..boards.count).map(board).collect())
}

/// When the log gains the lines of a span.
fn lines(span: &LogSpan, duration: f64) -> Vec<(f64, Append)> {
    let line = span.line.as_deref().unwrap_or_default();
    let until = span.until.map_or(duration, |Time(until)| until);
    let mut all = Vec::new();
    for n in 0_u64.. {
        let at = span.at.0 + n as f64 * span.every.map_or(0.0, |Time(every)| every);
        if (n > 0 && span.every.is_none()) || at >= until {
            break;
        }
        let mut text = line
            .replace("{n}", &(span.n + n).to_string())
            .replace("{o}", &n.to_string());
        text.push_str(match span.end {
            LineEnd::Newline => "\n",
            LineEnd::Return => "\r",
            LineEnd::Nothing => "",
        });
        all.push((at, Append::Bytes(text.into_bytes())));
    }
    all
}

fn rates(total: &mut Counters, span: &ProcessSpan, seconds: f64) {
    let seconds = seconds.max(0.0);
    let add = |sum: &mut Option<f64>, rate: f64| *sum = sum.map(|sum| sum + rate * seconds);
    add(&mut total.read_bytes, span.read);
    add(&mut total.written_bytes, span.write);
    add(&mut total.child_cpu_seconds, span.child_cpu);
    add(&mut total.all_cpu_seconds, span.all_cpu.max(span.cpu));
    total.page_faults += span.faults * seconds;
    total.main_cpu_seconds += span.cpu * seconds;
    if span.limited {
        (
            total.read_bytes,
            total.written_bytes,
            total.disk_written_bytes,
        ) = (None, None, None);
    }
    total.processes = span.ranks + span.workers;
    total.named_ranks = (total.processes > 0).then_some(span.ranks);
    total.stopped = span.stopped;
    total.uninterruptible = span.uninterruptible;
    total.same_syscall = Some(span.uninterruptible);
    total.stdout_blocked = Some(span.stdout_blocked);
}

/// Adds what recorded processes did, whose recording goes round.
fn replay(total: &mut Counters, span: &ProcessSpan, recorded: &[(f64, Counters)], seconds: f64) {
    let last = recorded.last().map_or(0.0, |(t, _)| *t);
    let (from, until) = (
        span.from.0,
        span.until.map_or(last, |Time(until)| until.min(last)),
    );
    let length = (until - from).max(1.0);
    let at = |t: f64| {
        recorded[..recorded.partition_point(|(s, _)| *s <= t)]
            .last()
            .map_or(recorded[0].1, |(_, c)| *c)
    };
    let (begin, end, now) = (at(from), at(until), at(from + seconds % length));
    let rounds = (seconds / length).floor();
    let rise =
        |get: fn(&Counters) -> f64| rounds * (get(&end) - get(&begin)) + get(&now) - get(&begin);
    let or_none = |get: fn(&Counters) -> Option<f64>| {
        get(&now).map(|_| {
            let value = |counters: &Counters| get(counters).unwrap_or_default();
            rounds * (value(&end) - value(&begin)) + value(&now) - value(&begin)
        })
    };
    let sum = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
    total.main_cpu_seconds += rise(|c| c.main_cpu_seconds);
    total.page_faults += rise(|c| c.page_faults);
    total.read_bytes = sum(total.read_bytes, or_none(|c| c.read_bytes));
    total.written_bytes = sum(total.written_bytes, or_none(|c| c.written_bytes));
    total.disk_written_bytes = sum(total.disk_written_bytes, or_none(|c| c.disk_written_bytes));
    total.child_cpu_seconds = sum(total.child_cpu_seconds, or_none(|c| c.child_cpu_seconds));
    total.processes = now.processes;
    total.stopped = now.stopped;
    total.uninterruptible = now.uninterruptible;
    total.same_syscall = now.same_syscall;
    total.stdout_blocked = now.stdout_blocked;
}
