//! What is told, and the exit code it comes to. The fields of [`Report`] and of what is in it are what `--json` prints;
//! their names stay. Unknown is null.

use serde::Serialize;

use super::ask::Clock;
use super::next::Next;

/// All that is told.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// This program's version.
    pub(super) version: &'static str,
    /// Who gave the verdicts: `exporter`, or `alone`.
    pub(super) source: &'static str,
    /// Where the exporter is, or would be.
    pub(super) exporter: String,
    /// Why the other source was not asked, or what went wrong; empty if nothing did.
    pub(super) note: String,
    /// How long was looked, in seconds.
    pub(super) seconds: f64,
    /// What this program exits with.
    pub(super) exit_code: u8,
    /// The runs.
    pub(super) runs: Vec<Diagnosis>,
    /// What could not be seen, of all runs.
    pub(super) cannot_see: Vec<String>,
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct Diagnosis {
    /// Its name.
    pub(super) run: String,
    /// The path of its log.
    pub(super) log: String,
    /// As in `run:training_verdict:info`.
    pub(super) verdict: String,
    /// What that comes to for an exit code.
    #[serde(skip)]
    pub(super) outcome: Outcome,
    /// The exit code of this run alone.
    pub(super) exit_code: u8,
    /// The verdict in words.
    pub(super) headline: String,
    /// Which witness says what.
    pub(super) because: String,
    /// How far the two looks bear it out.
    pub(super) sure: Sure,
    /// Why so, in sentences.
    pub(super) why: Vec<String>,
    /// The phase.
    pub(super) phase: String,
    /// The epoch under way.
    pub(super) epoch: Option<u64>,
    /// Clock P: progress of its numbers.
    pub(super) progress: Option<Clock>,
    /// Clock Q: work of its processes and GPUs.
    pub(super) work: Option<Clock>,
    /// What its processes did meanwhile: `work`, `busy` (proves nothing) or `still`.
    pub(super) evidence: Option<&'static str>,
    /// What moved and what did not.
    pub(super) witnesses: Vec<Witness>,
    /// Ranks and loader workers.
    pub(super) processes: Vec<Process>,
    /// What to run next.
    pub(super) next: Vec<Next>,
}

/// One witness: a number before and after.
#[derive(Debug, Serialize)]
pub(super) struct Witness {
    /// `log_bytes steps validation reads writes page_faults cpu gpu_busy gpu_power`.
    pub(super) witness: &'static str,
    /// It moved; null if it could not be asked.
    pub(super) moved: Option<bool>,
    /// At the first look.
    pub(super) before: Option<f64>,
    /// At the last look.
    pub(super) after: Option<f64>,
    /// `bytes`, `seconds`, `ratio`, `watts`, or what is counted.
    pub(super) unit: String,
}

/// One process, as in `Standing`; its counters say what its main thread did between the looks.
#[derive(Debug, Serialize)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) rank: Option<u64>,
    pub(super) worker: bool,
    pub(super) state: char,
    pub(super) waits_in: Option<String>,
    pub(super) writes_to: Option<String>,
    pub(super) cpu_seconds: Option<f64>,
    pub(super) page_faults: Option<f64>,
    pub(super) read_bytes: Option<f64>,
    pub(super) written_bytes: Option<f64>,
}

/// How far two looks bear a verdict out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Sure {
    /// It was seen.
    #[serde(rename = "sure")]
    Seen,
    /// Only time speaks for it.
    Likely,
    /// It cannot be told.
    Unsure,
}

impl Sure {
    /// The word for people.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Seen => "sure",
            Self::Likely => "likely",
            Self::Unsure => "unsure",
        }
    }
}

/// What a verdict comes to, those first that need somebody most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// Hung, or a rank is lost.
    Hung,
    /// It cannot be told.
    NotTold,
    /// All its processes are stopped.
    Suspended,
    /// It has ended.
    Over,
    /// Nobody writes its log.
    Nobody,
    /// It moves.
    Healthy,
}

impl Outcome {
    /// The exit code.
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Healthy => 0,
            Self::Hung => 1,
            Self::NotTold => 3,
            Self::Nobody => 4,
            Self::Over => 5,
            Self::Suspended => 6,
        }
    }

    /// The one of all that needs somebody most.
    pub(super) fn worst(all: impl Iterator<Item = Self>) -> Self {
        all.min().unwrap_or(Self::Nobody)
    }
}

impl Report {
    pub(super) fn new(exporter: &str) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            source: "alone",
            exporter: exporter.to_owned(),
            note: String::new(),
            seconds: 0.0,
            exit_code: Outcome::NotTold.code(),
            runs: Vec::new(),
            cannot_see: Vec::new(),
        }
    }

    /// There is no such run.
    pub(super) fn of_nobody(mut self) -> Self {
        self.exit_code = Outcome::Nobody.code();
        self
    }
}
