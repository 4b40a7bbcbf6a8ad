//! What the product's classification says of recorded jobs, healthy and hung: WORK in every window of the healthy ones
//! that can show it, in none of the hung ones, and the proofs that need no window.
//!
//! Recordings: `tests/evidence`, `tests/joint` and `tests/recordings`, or the folders that `EVIDENCE_DIR` and
//! `JOINT_DIR` name.

#![expect(clippy::print_stdout, reason = "what was measured is shown")]

use std::path::{Path, PathBuf};

use serde::Deserialize;
use training_exporter::node::process::Counters;
use training_exporter::node::process::window::{Evidence, Window, judge};
use training_exporter::scenario::recording::evidence;

/// The window of the whole recordings, in seconds: the product's usual one.
const WINDOW: f64 = 60.0;
/// Seconds between two looks of the exporter; the recorder looked each second.
const PACES: [f64; 2] = [1.0, 5.0];
/// Healthy cases in which nothing proves life: pure computation, samples over the network without workers, a full disk.
const ONLY_BUSY: [&str; 3] = ["h5", "h12", "x7"];
/// Seconds for which work may stand still in a healthy case. Measured: 14.0, where a file is read each 15 s.
const STANDSTILL: f64 = 20.0;
/// Seconds after the beginning of a hang in which work may still move. Measured: 3.9.
const AFTERGLOW: f64 = 6.0;

/// The recordings of whole runs whose quiet spans show work throughout, even in a metric that reads no file (page
/// faults). Other healthy ones may compute without a proof of life.
const WORKING: [&str; 3] = [
    "eagle3_validation_healthy",
    "hf_long_metrics_healthy",
    "mnist_block_buffered_healthy",
];
/// What may be said of a hung job: one that spins is busy.
const NO_WORK: &[Evidence] = &[Evidence::Still, Evidence::Busy];

type Looks = Vec<(f64, Counters)>;

/// A span of a recording of which the truth is known.
struct Span {
    name: String,
    healthy: bool,
    /// What may be said of its windows.
    right: &'static [Evidence],
    window: f64,
    /// The looks from the recording's beginning on.
    looks: Looks,
    from: f64,
    until: f64,
}

impl Span {
    fn own(&self) -> &[(f64, Counters)] {
        let from = self.looks.partition_point(|(at, _)| *at < self.from);
        let until = self.looks.partition_point(|(at, _)| *at <= self.until);
        &self.looks[from..until]
    }

    /// What is said of each window that lies in the span, one from each look on.
    fn verdicts(&self) -> Vec<Evidence> {
        let own = self.own();
        own.iter()
            .filter_map(|(since, before)| {
                let (at, after) = own.iter().find(|(at, _)| at - since >= self.window)?;
                Some(judge(before, after, at - since, 1.0))
            })
            .collect()
    }

    /// The looks that the exporter would have taken, and what its window says after each.
    fn watched(&self, pace: f64) -> Vec<(f64, Option<Evidence>, Option<f64>)> {
        let mut window = Window::new(self.window, 1.0);
        let mut next = f64::MIN;
        let mut said = Vec::new();
        for (at, counters) in self.looks.iter().filter(|(at, _)| *at <= self.until) {
            if *at >= next {
                next = at + pace - 0.3;
                let evidence = window.look(*at, *counters);
                said.push((*at, evidence, window.worked_at()));
            }
        }
        said
    }
}

fn folders(variable: &str, usual: &[&str]) -> Vec<PathBuf> {
    match std::env::var_os(variable) {
        Some(folder) => vec![PathBuf::from(folder)],
        None => usual
            .iter()
            .map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
            .collect(),
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn looks(path: &Path) -> Looks {
    evidence(&read(path)).unwrap_or_else(|e| panic!("{}:{e}", path.display()))
}

/// The cases of the index that are healthy or hung; those that ended by themselves have no window.
fn cases() -> Vec<Span> {
    let mut cases = Vec::new();
    for folder in folders("EVIDENCE_DIR", &["tests/evidence"]) {
        for line in read(&folder.join("index.csv")).lines().skip(1) {
            let row: Vec<&str> = line.splitn(7, ',').collect();
            let [name, truth, quiet, until, hung, window, _] = row[..] else {
                panic!("index.csv: {line}");
            };
            let seconds = |field: &str| field.parse::<f64>().ok();
            if truth != "healthy" && truth != "hung" {
                continue;
            }
            let healthy = truth == "healthy";
            cases.push(Span {
                name: name.to_owned(),
                healthy,
                right: match (healthy, ONLY_BUSY.contains(&name)) {
                    (true, false) => &[Evidence::Work],
                    (true, true) => &[Evidence::Busy],
                    (false, _) => NO_WORK,
                },
                window: seconds(window).expect("a window"),
                looks: looks(&folder.join(format!("{name}.csv"))),
                from: seconds(hung).or(seconds(quiet)).expect("a beginning"),
                until: seconds(until).expect("an end"),
            });
        }
    }
    cases
}

#[derive(Deserialize)]
struct Meta {
    quiet: Vec<Quiet>,
}

#[derive(Deserialize)]
struct Quiet {
    truth: String,
    from_seconds: f64,
    until_seconds: f64,
}

/// The quiet spans of the whole recordings.
fn spans() -> Vec<Span> {
    let mut spans = Vec::new();
    for folder in folders("JOINT_DIR", &["tests/joint", "tests/recordings"]) {
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
        for entry in entries {
            let path = entry.expect("an entry").path();
            if !path.join("meta.json").exists() || !path.join("evidence.csv").exists() {
                continue;
            }
            let meta: Meta =
                serde_json::from_str(&read(&path.join("meta.json"))).expect("meta.json");
            let name = path
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            for quiet in meta.quiet {
                let healthy = quiet.truth == "healthy";
                spans.push(Span {
                    name: name.clone(),
                    healthy,
                    right: match (healthy, WORKING.contains(&name.as_str())) {
                        (true, true) => &[Evidence::Work],
                        (true, false) => &[Evidence::Work, Evidence::Busy],
                        (false, _) => NO_WORK,
                    },
                    window: WINDOW,
                    looks: looks(&path.join("evidence.csv")),
                    from: quiet.from_seconds,
                    until: quiet.until_seconds,
                });
            }
        }
    }
    spans
}

/// The first violation of each span; none if the classification holds.
fn faults(spans: &[Span]) -> Vec<String> {
    let mut faults = Vec::new();
    for span in spans {
        let verdicts = span.verdicts();
        if verdicts.is_empty() {
            faults.push(format!("{}: no window", span.name));
        }
        let wrong = |said: &Evidence| !span.right.contains(said);
        if let Some(n) = verdicts.iter().position(wrong) {
            faults.push(format!("{}: window {n} is {:?}", span.name, verdicts[n]));
        }
    }
    faults
}

#[test]
fn every_window_of_every_case_is_told_rightly() {
    let cases = cases();
    assert!(!cases.is_empty());
    assert_eq!(faults(&cases), Vec::<String>::new());
}

#[test]
fn quiet_spans_of_whole_recordings_show_work_and_hung_ones_none() {
    let spans = spans();
    assert!(!spans.is_empty());
    assert_eq!(faults(&spans), Vec::<String>::new());
}

/// The exporter's own window, fed as the exporter feeds it, says of the newest window what the judge says of it.
#[test]
fn a_sliding_window_says_the_same() {
    for span in cases().iter().chain(&spans()) {
        for pace in PACES {
            // A whole window and the look before it lie in the span.
            let settled = span.from + span.window + pace;
            let wrong = span
                .watched(pace)
                .into_iter()
                .filter(|(at, _, _)| *at > settled)
                .find(|(_, said, _)| said.is_none_or(|said| !span.right.contains(&said)));
            assert!(wrong.is_none(), "{} at {pace} s: {wrong:?}", span.name);
        }
    }
}

#[test]
fn work_stands_still_soon_after_a_hang_begins() {
    for span in cases().iter().chain(&spans()).filter(|span| !span.healthy) {
        for pace in PACES {
            let watched = span.watched(pace);
            let last = watched.last().and_then(|(_, _, worked)| *worked);
            let late = last.map_or(0.0, |last| last - span.from);
            println!("{} at {pace} s: work ends {late:.1} s after", span.name);
            assert!(late <= AFTERGLOW, "{} at {pace} s: {late} s", span.name);
        }
    }
}

#[test]
fn work_of_healthy_jobs_never_stands_still_for_long() {
    let all = cases().into_iter().chain(spans());
    for span in all.filter(|span| span.right == [Evidence::Work]) {
        for pace in PACES {
            let longest = span
                .watched(pace)
                .into_iter()
                .filter(|(at, _, _)| *at >= span.from)
                .map(|(at, _, worked)| at - worked.unwrap_or(span.from))
                .fold(0.0, f64::max);
            println!("{} at {pace} s: {longest:.1} s", span.name);
            assert!(
                longest <= STANDSTILL,
                "{} at {pace} s: {longest} s",
                span.name
            );
        }
    }
}

/// What needs no window: a stopped process, one in the same system call for ever, a print that blocks.
#[test]
fn direct_proofs_stand_in_the_recordings() {
    type Proof = fn(&Counters) -> bool;
    let proofs: [(&str, Proof); 3] = [
        ("x1c", |c| c.stopped == 1 && c.processes == 2),
        ("x5", |c| {
            c.uninterruptible > 0 && c.same_syscall == Some(c.uninterruptible)
        }),
        ("x6", |c| c.stdout_blocked.is_some_and(|n| n > 0)),
    ];
    let cases = cases();
    for (name, proof) in proofs {
        // Other folders may hold other cases.
        let Some(case) = cases.iter().find(|case| case.name == name) else {
            continue;
        };
        // The fault, and then the look after it that finds nothing changed.
        let settled = case
            .own()
            .iter()
            .skip_while(|(at, _)| *at < case.from + 5.0);
        assert!(settled.clone().count() > 30, "{name}");
        for (at, counters) in settled {
            assert!(proof(counters), "{name} at {at}: {counters:?}");
        }
    }
}
