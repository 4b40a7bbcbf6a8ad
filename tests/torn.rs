//! A daemon's record that is seen torn says nothing before its end: whatever the bytes are cut into, and however long
//! each piece rests, what is read is the same.
//!
//! `torn/containerd.log` is how containerd wrote the first passes of a run of transformers' Trainer: its evaluation bar
//! is known as one only by the last bytes of its frame. Other logs are put into records here.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use training_exporter::log::lines::{Line, Lines};
use training_exporter::log::reader::Presets;

/// All that is read of a log that comes in pieces of so many bytes, each of which rests.
fn said(log: &[u8], piece: usize) -> Vec<String> {
    let mut said = Vec::new();
    static PRESETS: LazyLock<Presets> = LazyLock::new(Presets::built_in);
    let mut reader = PRESETS.reader(None);
    let mut each = |line: Line<'_>| reader.read(&line, &mut |what| said.push(what.to_string()));
    let mut lines = Lines::default();
    for piece in log.chunks(piece) {
        lines.push(piece, &mut each);
        lines.rest(&mut each);
    }
    said
}

fn same_however_torn(log: &[u8], name: &str) {
    let whole = said(log, log.len());
    for piece in [7, 64, 127, 1000, 4093] {
        assert!(
            said(log, piece) == whole,
            "{name}: otherwise in pieces of {piece}"
        );
    }
}

/// Each line of a log as one record.
fn records(log: &str, record: impl Fn(&str) -> String) -> Vec<u8> {
    let lines = log.split_terminator('\n');
    let mut records = String::new();
    lines.for_each(|line| writeln!(records, "{}", record(line)).expect("a string"));
    records.into_bytes()
}

#[test]
fn containerds_records_say_the_same_however_torn() {
    let log = include_bytes!("torn/containerd.log");
    same_however_torn(log, "containerd");
    let validated = said(log, 64)
        .iter()
        .filter(|what| what.starts_with("result"))
        .count();
    assert!(validated > 0, "it validates");
}

#[test]
fn any_log_in_any_daemons_records_says_the_same_however_torn() {
    let own = PathBuf::from("tests/logs");
    let more = std::env::var_os("LOGS_DIR").map(PathBuf::from);
    let folders = [own].into_iter().chain(more);
    let cases = folders.flat_map(|folder| fs::read_dir(folder).expect("the recorded logs"));
    let mut seen = 0;
    for case in cases {
        let log = case.expect("an entry").path().join("train.log");
        let Ok(bytes) = fs::read(&log) else { continue };
        // The beginning of a long one: each few bytes are a piece of their own here.
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(8_000)]);
        let name = log.display().to_string();
        if bytes.is_empty() || said(text.as_bytes(), text.len()).is_empty() {
            continue;
        }
        let cri = records(&text, |line| {
            format!("2026-02-23T01:14:40.123456789Z stderr F {line}")
        });
        same_however_torn(&cri, &format!("{name} by containerd"));
        let docker = records(&text, |line| {
            let line = serde_json::Value::from(format!("{line}\n"));
            format!(r#"{{"log":{line},"stream":"stdout","time":"2026-02-23T01:14:40Z"}}"#)
        });
        same_however_torn(&docker, &format!("{name} by Docker"));
        let rsyslog = records(&text, |line| {
            let line = line.replace('\r', "#015").replace('\x1b', "#033");
            format!("Feb 23 01:14:40 node07 train.sh[812]: {line}")
        });
        same_however_torn(&rsyslog, &format!("{name} by rsyslog"));
        seen += 1;
    }
    assert!(seen >= 10, "the recorded logs are there");
}
