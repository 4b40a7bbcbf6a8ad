//! A recorded run, as a recorder wrote it: the log's bytes and when they came, what the processes did, which validation
//! files were opened, and what the trainer was really doing. Anything can be asked of it at any time of its clock.

use serde::Deserialize;

use crate::job::{Phase, Unix};
use crate::node::process::Counters;

/// One recorded run; times are seconds since it began.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The log's bytes.
    pub log: Vec<u8>,
    /// When the log had how many bytes.
    appends: Vec<(f64, u64)>,
    /// The counters of its processes, about once a second.
    counters: Vec<(f64, Counters)>,
    /// Distinct validation files opened, and in which pass.
    files: Vec<(f64, Files)>,
    phases: Vec<(f64, Phase)>,
}

/// How far a pass over the validation files is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Distinct files opened in this pass.
    pub opened: u64,
    /// Which pass; 0 before the first.
    pub pass: u64,
}

/// The files of a recording, as text.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    /// `train.log`
    pub log: &'a [u8],
    /// `timeline.tsv`
    pub timeline: &'a str,
    /// `evidence.csv`
    pub evidence: &'a str,
    /// `files.tsv`
    pub files: &'a str,
    /// `truth.jsonl`
    pub truth: &'a str,
}

#[derive(Deserialize)]
struct Event {
    t: f64,
    event: String,
    phase: Option<String>,
}

impl Recording {
    /// Reads a recording; an error names the file and the line.
    pub fn parse(texts: Texts<'_>) -> Result<Self, String> {
        let mut phases = Vec::new();
        for (n, line) in texts.truth.lines().enumerate() {
            let event: Event =
                serde_json::from_str(line).map_err(|e| format!("truth.jsonl:{}: {e}", n + 1))?;
            if event.event == "phase" {
                phases.extend(
                    event
                        .phase
                        .as_deref()
                        .and_then(Phase::named)
                        .map(|phase| (event.t, phase)),
                );
            }
        }
        Ok(Self {
            log: texts.log.to_vec(),
            appends: timeline(texts.timeline).map_err(|e| format!("timeline.tsv:{e}"))?,
            counters: evidence(texts.evidence).map_err(|e| format!("evidence.csv:{e}"))?,
            files: files(texts.files).map_err(|e| format!("files.tsv:{e}"))?,
            phases,
        })
    }

    /// How many bytes the log had at `t`.
    pub fn bytes_at(&self, t: Unix) -> usize {
        let size = newest(&self.appends, t).map_or(0, |(_, size)| *size);
        usize::try_from(size)
            .unwrap_or(usize::MAX)
            .min(self.log.len())
    }

    /// The counters of its processes at `t`.
    pub fn counters_at(&self, t: Unix) -> Counters {
        newest(&self.counters, t).map_or_else(Counters::default, |(_, counters)| *counters)
    }

    /// The validation files opened by `t`.
    pub fn files_at(&self, t: Unix) -> Files {
        newest(&self.files, t).map_or_else(Files::default, |(_, files)| *files)
    }

    /// Seconds spent in training up to `t`.
    pub fn trained_by(&self, t: Unix) -> f64 {
        let mut spent = 0.0;
        for (i, &(from, phase)) in self.phases.iter().enumerate() {
            if phase == Phase::Train && from < t {
                spent += self.phases.get(i + 1).map_or(t, |&(until, _)| until.min(t)) - from;
            }
        }
        spent
    }

    /// What the trainer was really doing at `t`.
    pub fn phase_at(&self, t: Unix) -> Phase {
        newest(&self.phases, t).map_or(Phase::Init, |(_, phase)| *phase)
    }
}

/// Reads a timeline: when the log had how many bytes. Errors begin with the line's number.
pub fn timeline(text: &str) -> Result<Vec<(Unix, u64)>, String> {
    rows(text, '\t')
        .map(|(n, row)| match row[..] {
            [at, size, ..] => Ok((
                number(at).map_err(|e| format!("{n}: {e}"))?,
                size.parse()
                    .map_err(|e| format!("{n}: byte offset `{size}`: {e}"))?,
            )),
            _ => Err(format!(
                "{n}: expected `seconds TAB byte offset`, found `{}`",
                row.join("\t")
            )),
        })
        .collect()
}

/// Reads which validation files were opened when. Errors begin with the line's number.
pub fn files(text: &str) -> Result<Vec<(Unix, Files)>, String> {
    rows(text, '\t')
        .map(|(n, row)| {
            let count = |field: &str| {
                let number: Result<u64, _> = field.parse();
                number.map_err(|_| format!("{n}: `{field}` is not a count"))
            };
            let [at, opened, pass] = row[..] else {
                return Err(format!("{n}: expected three columns, found {}", row.len()));
            };
            let (opened, pass) = (count(opened)?, count(pass)?);
            let at = number(at).map_err(|e| format!("{n}: {e}"))?;
            Ok((at, Files { opened, pass }))
        })
        .collect()
}

/// Reads recorded counters of processes. Errors begin with the line's number. Compilers and other children were only
/// counted, so each new process stands for the CPU time that proves work.
pub fn evidence(text: &str) -> Result<Vec<(Unix, Counters)>, String> {
    const CHILD_CPU_SECONDS: f64 = 5.0;
    let mut all = Vec::new();
    for (n, row) in rows(text, ',').filter(|(_, row)| row[0] != "t_seconds") {
        let values: Vec<f64> = row
            .iter()
            .map(|f| number(f))
            .collect::<Result<_, _>>()
            .map_err(|e| format!("{n}: {e}"))?;
        let [
            t,
            processes,
            cpu,
            read,
            written,
            faults,
            disk,
            new,
            files,
            stopped,
            stuck,
            same,
            blocked,
        ] = values[..]
        else {
            return Err(format!("{n}: expected 13 columns, found {}", values.len()));
        };
        let counters = Counters {
            processes: processes as u64,
            named_ranks: None,
            main_cpu_seconds: cpu,
            all_cpu_seconds: None,
            read_bytes: Some(read),
            written_bytes: Some(written),
            page_faults: faults,
            disk_written_bytes: Some(disk),
            child_cpu_seconds: Some(CHILD_CPU_SECONDS * new),
            files_opened: Some(files as u64),
            stopped: stopped as u64,
            uninterruptible: stuck as u64,
            same_syscall: Some(same as u64),
            stdout_blocked: Some(blocked as u64),
        };
        all.push((t, counters));
    }
    Ok(all)
}

/// The fields of each line that is no comment, with the line's number.
fn rows(text: &str, separator: char) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(move |(n, line)| (n + 1, line.split(separator).collect()))
}

fn number(field: &str) -> Result<f64, String> {
    field
        .parse()
        .map_err(|_| format!("`{field}` is not a number"))
}

/// The newest entry at `t`.
fn newest<T>(entries: &[(f64, T)], t: f64) -> Option<&(f64, T)> {
    entries[..entries.partition_point(|(at, _)| *at <= t)].last()
}
