//! What `replay` says of recorded logs, against what the trainers were really doing at each moment.
//!
//! A case is a folder: `train.log` as a real trainer wrote it (the names of those that were written by hand begin with
//! `written_`), `timeline.tsv` (when the file had how many bytes), `truth.jsonl` (told from inside the framework) and
//! `meta.json`. Every folder in `tests/logs` is a case, and every one in the folder that `LOGS_DIR` names.

#![expect(clippy::disallowed_methods, reason = "runs the exporter itself")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

#[path = "replay/score.rs"]
mod score;

/// The share that every scored figure must reach.
const SHARE: f64 = 0.98;
/// An unfinished last line may be judged otherwise at the very end of a log, in seconds.
const UNFINISHED: f64 = 2.0;

fn cases() -> Vec<PathBuf> {
    let own = PathBuf::from("tests/logs");
    let more = std::env::var_os("LOGS_DIR").map(PathBuf::from);
    let folders = [own].into_iter().chain(more).flat_map(|folder| {
        let list = fs::read_dir(&folder);
        list.unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
    });
    let mut cases: Vec<PathBuf> = folders
        .map(|entry| entry.expect("an entry").path())
        .collect();
    cases.retain(|case| case.join("meta.json").is_file());
    cases.sort();
    cases
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn meta(case: &Path) -> score::Meta {
    let path = case.join("meta.json");
    serde_json::from_str(&read(&path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn replay(timeline: &Path, log: &Path, format: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_training-exporter"))
        .arg("replay")
        .arg("--timeline")
        .args([
            timeline.as_os_str(),
            "--format".as_ref(),
            format.as_ref(),
            log.as_os_str(),
        ])
        .output()
        .expect("the exporter starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {told}", log.display());
    String::from_utf8(output.stdout).expect("text")
}

fn beliefs(timeline: &Path, log: &Path) -> Vec<Value> {
    replay(timeline, log, "jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect()
}

/// Time and size, in the order of a timeline.
fn appends(timeline: &str) -> Vec<(f64, usize)> {
    timeline
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .map(|line| {
            let mut fields = line.split('\t');
            let mut next = || fields.next().unwrap_or_else(|| panic!("{line}: too short"));
            (
                next().parse().expect("seconds"),
                next().parse().expect("bytes"),
            )
        })
        .collect()
}

#[test]
fn every_figure_reaches_its_share() {
    let cases = cases();
    assert!(cases.len() >= 10, "the recorded logs are there");
    let mut short = String::new();
    for case in &cases {
        let meta = meta(case);
        let beliefs = beliefs(&case.join("timeline.tsv"), &case.join("train.log"));
        let truth = read(&case.join("truth.jsonl"));
        let events = truth
            .lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect();
        let times = appends(&read(&case.join("timeline.tsv")));
        let times: Vec<f64> = times.into_iter().map(|(at, _)| at).collect();
        for (figure, share) in score::score(&meta, events, &times, &beliefs) {
            let enough = meta.floor.get(&figure).copied().unwrap_or(1.0).min(SHARE);
            if share < enough {
                let case = case.display();
                short += &format!("{case}: {figure} is right in {share:.3}, not {enough}\n");
            }
        }
    }
    assert!(short.is_empty(), "\n{short}");
}

/// The first half of a log and of its timeline gives what the whole gives for that time.
#[test]
fn nothing_is_known_before_it_is_written() {
    let part = tempfile::tempdir().expect("a folder");
    let (timeline, log) = (
        part.path().join("timeline.tsv"),
        part.path().join("train.log"),
    );
    for case in cases().iter().filter(|case| !meta(case).scored.is_empty()) {
        let rows = appends(&read(&case.join("timeline.tsv")));
        let half = &rows[..rows.len() / 2];
        let Some(&(last, size)) = half.last() else {
            continue;
        };
        let text: String = half
            .iter()
            .map(|(at, size)| format!("{at}\t{size}\n"))
            .collect();
        fs::write(&timeline, text).expect("written");
        let bytes = fs::read(case.join("train.log")).expect("a log");
        fs::write(&log, &bytes[..size.min(bytes.len())]).expect("written");
        let mut of_half = beliefs(&timeline, &log);
        let mut of_whole = beliefs(&case.join("timeline.tsv"), &case.join("train.log"));
        let early = |belief: &Value| belief["t"].as_f64().expect("a time") <= last - UNFINISHED;
        of_half.retain(early);
        of_whole.retain(early);
        assert_eq!(of_half, of_whole, "{}: looks ahead", case.display());
    }
}

/// For people: the form is seen in review. `UPDATE_GOLDEN=1` writes it anew.
#[test]
fn the_text_form_is_the_golden_one() {
    let mut seen = 0;
    for case in cases() {
        let golden = case.join("replay.txt");
        if !golden.is_file() {
            continue;
        }
        let text = replay(&case.join("timeline.tsv"), &case.join("train.log"), "text");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&golden, &text).expect("written");
        }
        let case = case.display();
        assert_eq!(text, read(&golden), "{case}: see UPDATE_GOLDEN=1");
        seen += 1;
    }
    assert!(seen >= 2, "the golden files are there");
}

#[test]
fn bars_of_an_unknown_framework_make_no_phase() {
    let case = Path::new("tests/logs/written_unknown_tqdm");
    let beliefs = beliefs(&case.join("timeline.tsv"), &case.join("train.log"));
    assert!(
        beliefs.iter().any(|belief| belief["step"] == 300),
        "the bars are read"
    );
    for belief in beliefs {
        assert_eq!(belief["phase"], "unknown", "{belief}");
    }
}

/// `meta.json` tells whose stdout was kept back; every other log came as it was printed.
#[test]
fn a_buffered_stdout_is_told_from_a_quiet_one() {
    let mut seen = 0;
    for case in cases() {
        let kept = read(&case.join("meta.json")).contains("block-buffered");
        let text = replay(&case.join("timeline.tsv"), &case.join("train.log"), "text");
        assert_eq!(text.contains("it came in blocks"), kept, "{text}");
        seen += usize::from(kept);
    }
    assert!(seen >= 3, "the buffered logs are there");
}

/// A bar's newest frame has no end before the next one is drawn: it is read as soon as the file rests.
#[test]
fn an_unterminated_tail_is_read_once_it_rests() {
    let frame =
        |done: u64| format!("\r{done:3}%|###       | {done}/100 [00:{done}<01:00,  1.00s/it]");
    let (first, second) = (frame(10), frame(20));
    let folder = tempfile::tempdir().expect("a folder");
    let (timeline, log) = (folder.path().join("t"), folder.path().join("l"));
    // The second frame comes in two pieces, cut within its number.
    let cut = first.len() + second.find("20/").expect("a number") + 1;
    let whole = first.len() + second.len();
    let rows = format!("10\t{}\n20\t{cut}\n21\t{whole}\n", first.len());
    fs::write(&timeline, rows).expect("written");
    fs::write(&log, first + &second).expect("written");
    let told: Vec<(f64, u64)> = beliefs(&timeline, &log)
        .iter()
        .map(|row| (row["t"].as_f64().unwrap(), row["step"].as_u64().unwrap()))
        .collect();
    assert_eq!(told, [(10.0, 10), (21.0, 20)]);
}
