//! The shipped alert rules and routes in a world that runs 15 times faster: what takes a quarter of an hour takes a
//! minute. Only lengths of time differ from what is shipped, and that is proven word by word, not assumed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_yaml::Value;

/// So many times faster than real time; a divisor of every length of time in the rules.
pub(crate) const FASTER: u64 = 15;

/// The rule files that are shipped.
pub(crate) fn shipped() -> Vec<PathBuf> {
    let folder = fs::read_dir(alerts()).expect("alerts/");
    let mut files: Vec<PathBuf> = folder.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(".rules.yml"));
    files.sort();
    files
}

fn alerts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts")
}

/// Writes the faster rules into `folder`; their paths.
pub(crate) fn write_rules(folder: &Path) -> Vec<PathBuf> {
    let copy = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a rule file");
        let copied = folder.join(path.file_name().expect("a name"));
        fs::write(&copied, faster(&text)).expect("written");
        copied
    };
    shipped().into_iter().map(copy).collect()
}

/// The example's routes and inhibition, its receivers replaced by webhooks of the same names, and its waits so many
/// times shorter.
pub(crate) fn alertmanager(webhook: &str, times: u64) -> String {
    let routes = with_receivers(|name| {
        serde_yaml::from_str(&format!(
            "{{name: {name}, webhook_configs: [{{url: 'http://{webhook}/{name}', send_resolved: true}}]}}"
        ))
        .expect("YAML")
    });
    divided(&routes, times)
}

/// The example with other receivers: each is given by its name.
fn with_receivers(receiver: impl Fn(&str) -> Value) -> String {
    let path = alerts().join("alertmanager/alertmanager.example.yml");
    let text = fs::read_to_string(path).expect("the example");
    let mut config: Value = serde_yaml::from_str(&text).expect("YAML");
    for place in config["receivers"].as_sequence_mut().expect("a list") {
        let name = place["name"].as_str().expect("a name").to_owned();
        *place = receiver(&name);
    }
    serde_yaml::to_string(&config).expect("YAML")
}

/// The same text with each length of time divided by `FASTER`.
fn faster(text: &str) -> String {
    divided(text, FASTER)
}

/// The same text with each length of time divided.
fn divided(text: &str, times: u64) -> String {
    static TIME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?<before>\[|\boffset |\b(?:\w*for|\w*interval|\w*wait): )(?<time>\d+[smhd])\b|\b(?<seconds>1800|3600|7200)\b")
            .expect("a pattern")
    });
    let shorter = |found: &Captures<'_>| match found.name("seconds") {
        Some(seconds) => {
            format!(
                "{}",
                milliseconds(seconds.as_str()).expect("seconds") / times / 1_000
            )
        }
        None => {
            let time = milliseconds(&found["time"]).expect("a length of time");
            format!("{}{}ms", &found["before"], time / times)
        }
    };
    TIME.replace_all(text, shorter).into_owned()
}

/// A length of time as Prometheus writes it: of one unit, or a bare number of seconds.
fn milliseconds(word: &str) -> Option<u64> {
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = word[..word.len() - unit.len()].parse().ok()?;
    let of_unit = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(number * of_unit)
}

/// Words, and each character between them.
fn pieces(text: &str) -> Vec<&str> {
    static PIECE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?s)\w+|.").expect("a pattern"));
    PIECE.find_iter(text).map(|piece| piece.as_str()).collect()
}

/// The words in which the copy differs, each a length of time that is so many times shorter. It differs in nothing else.
fn shortened<'a>(shipped: &'a str, copy: &str) -> Vec<&'a str> {
    let (shipped, copy) = (pieces(shipped), pieces(copy));
    assert_eq!(shipped.len(), copy.len(), "words were added or lost");
    let mut words = Vec::new();
    for (shipped, copy) in shipped.into_iter().zip(copy) {
        if shipped != copy {
            let (long, short) = (milliseconds(shipped), milliseconds(copy));
            assert!(
                long.is_some() && long == short.map(|short| short * FASTER),
                "{shipped} became {copy}"
            );
            words.push(shipped);
        }
    }
    words
}

#[test]
fn only_lengths_of_time_differ_from_what_is_shipped() {
    let files = shipped();
    assert_eq!(files.len(), 4, "{files:?}");
    let mut count = 0;
    for path in files {
        let text = fs::read_to_string(&path).expect("a rule file");
        let found = shortened(&text, &faster(&text));
        // No length of time is forgotten.
        let code: String = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .flat_map(|line| [line, "\n"])
            .collect();
        let times = |word: &&str| {
            milliseconds(word).is_some_and(|time| time > 0)
                && (word.ends_with(['s', 'm', 'h', 'd']) || word.len() > 3)
        };
        let there = pieces(&code).into_iter().filter(times).count();
        let of_code = shortened(&code, &faster(&code)).len();
        assert_eq!(of_code, there, "{}", path.display());
        count += found.len();
    }
    assert!(count > 40, "{count} lengths of time");

    let nothing = |name: &str| Value::from(name);
    let routes = with_receivers(nothing);
    let found = shortened(&routes, &faster(&routes));
    assert_eq!(found, ["30s", "5m", "12h", "15s", "4h"]);
    let ours: Value = serde_yaml::from_str(&alertmanager("a", FASTER)).expect("YAML");
    let theirs: Value = serde_yaml::from_str(&routes).expect("YAML");
    assert_eq!(ours["inhibit_rules"], theirs["inhibit_rules"]);
    let names: Vec<&Value> = ours["receivers"]
        .as_sequence()
        .into_iter()
        .flatten()
        .map(|r| &r["name"])
        .collect();
    assert_eq!(
        names,
        theirs["receivers"]
            .as_sequence()
            .expect("a list")
            .iter()
            .collect::<Vec<_>>()
    );
}
