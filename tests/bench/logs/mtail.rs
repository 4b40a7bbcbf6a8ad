//! mtail with a program that asks for the same as presets do: one gauge for each capture, one counter for each rule.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use regex::Regex;

use crate::{MB, repeated};

/// The presets whose rules make the program. mtail cannot choose a preset, and with all of them it would be slower.
const PRESETS: [&str; 3] = ["transformers", "speculators", "torch"];

#[derive(serde::Deserialize)]
struct Preset {
    rules: Vec<Rule>,
}

#[derive(serde::Deserialize)]
struct Rule {
    when: String,
}

/// Megabytes for each second of its CPU time; nothing where it is not installed.
pub(crate) fn speed(folder: &Path, bytes: usize) -> Option<f64> {
    let (program, patterns) = program();
    let programs = folder.join("programs");
    fs::create_dir(&programs).expect("a folder");
    fs::write(programs.join("train.mtail"), program).expect("written");
    let log = folder.join("all.log");
    let parts: Vec<Vec<u8>> = repeated(folder, bytes)
        .iter()
        .map(|(_, path)| fs::read(path).expect("there"))
        .collect();
    let whole = parts.concat();
    fs::write(&log, &whole).expect("written");
    let began = used_by_children();
    let done = Command::new("mtail")
        .args(["--one_shot", "--one_shot_format=prometheus", "--progs"])
        .arg(&programs)
        .arg("--logs")
        .arg(&log)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let Ok(status) = done else {
        println!("(no mtail: apt-get install mtail)");
        return None;
    };
    assert!(status.success(), "mtail refuses the program");
    println!(
        "mtail --one_shot --one_shot_format=prometheus --progs {patterns}-patterns --logs {:.0}-MB",
        whole.len() as f64 / MB
    );
    Some(whole.len() as f64 / MB / (used_by_children() - began))
}

fn program() -> (String, usize) {
    let capture = Regex::new(r"\(\?<(\w+)>").expect("a constant pattern");
    let (mut head, mut body, mut patterns) = (String::new(), String::new(), 0);
    for name in PRESETS {
        let yaml = fs::read_to_string(format!("src/presets/{name}.yaml")).expect("a preset");
        let preset: Preset = serde_yaml::from_str(&yaml).expect("a preset");
        for Rule { when } in preset.rules {
            let (mut metrics, mut takes) = (String::new(), String::new());
            for (_, [name]) in capture.captures_iter(&when).map(|found| found.extract()) {
                // These are no numbers, or none to export.
                if !["rank", "k", "pid"].contains(&name) {
                    writeln!(metrics, "gauge {name}_{patterns}").expect("a string");
                    writeln!(takes, "  {name}_{patterns} = float(${name})").expect("a string");
                }
            }
            let when = capture.replace_all(&when, "(?P<$1>").replace('/', r"\/");
            write!(head, "counter matched_{patterns}\n{metrics}").expect("a string");
            write!(body, "/{when}/ {{\n  matched_{patterns}++\n{takes}}}\n").expect("a string");
            patterns += 1;
        }
    }
    assert!(
        patterns >= 40,
        "{patterns} patterns are too few to compare with"
    );
    (head + &body, patterns)
}

/// Seconds of CPU time that children which have ended used, in hundredths.
fn used_by_children() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux tells");
    let (_, rest) = stat.rsplit_once(") ").expect("a name");
    let times = rest.split(' ').skip(13).take(2);
    times
        .map(|ticks| ticks.parse::<f64>().expect("a number"))
        .sum::<f64>()
        / 100.0
}
