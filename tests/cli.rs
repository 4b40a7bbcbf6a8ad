//! What the program says when it is asked, and what it exits with: `check`, `metrics`, `replay`, `--help`.
//!
//! Each file in `tests/bad` is wrong in one way, or in many; its first lines, after `# expect: `, say exactly what `check`
//! must tell of it, without the path; `{file}` stands for that, and `{presets}` for the names of those that can be
//! chosen. `tests/metrics.golden` holds every metric's name, type and labels.

#![expect(clippy::disallowed_methods, reason = "runs the exporter itself")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use training_exporter::log::reader::Presets;
use training_exporter::state::metrics::all_metrics;

/// How a call of the program ended.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn exporter(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_training-exporter"));
    command.args(args);
    command
}

fn run(args: &[&str]) -> Ended {
    let output = exporter(args).output().expect("the exporter starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ended {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// The names of the built-in presets, as messages list them.
fn presets() -> String {
    Presets::built_in().names()
}

#[test]
fn a_bad_file_is_told_with_its_place_and_the_way_out() {
    let mut seen = 0;
    for entry in fs::read_dir("tests/bad").expect("a folder") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("text");
        let expect: Vec<&str> = text
            .lines()
            .map_while(|line| line.strip_prefix("# expect: "))
            .collect();
        assert!(
            !expect.is_empty(),
            "{}: says nothing to expect",
            path.display()
        );
        let path = path.to_str().expect("text");
        let expect = expect.join("\n").replace("{presets}", &presets());
        let expect = expect.replace("{file}", path);
        let ended = run(&["check", path]);
        assert_eq!(ended.stdout, format!("{path}{expect}\n"));
        assert_eq!(ended.stderr, "training-exporter: the file is wrong\n");
        assert_eq!(ended.code, Some(1), "{path}");
        seen += 1;
    }
    assert!(seen >= 40, "the bad files are there");
}

#[test]
fn every_file_is_checked_and_one_bad_one_fails_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let empty = file("empty.yaml", "");
    let remarks = file("remarks.yaml", "# nothing yet\n\n  # at all\n");
    let whole = file(
        "whole.yaml",
        "logs:\n  - { path: /var/log/train/*.log, run: llama, val_files: 12 }\nrun_max: 8\n",
    );
    let good = run(&["check", &empty, &remarks, &whole, "src/presets/torch.yaml"]);
    let nothing = "says nothing; as a configuration, all is by default";
    let told = format!(
        "{empty}: {nothing}\n{remarks}: {nothing}\n{whole}: a good configuration\n\
         src/presets/torch.yaml: a good preset\n  note: takes the place of the preset `torch` that is there already; a name \
         of its own keeps both\n"
    );
    assert_eq!(
        (good.code, good.stdout, good.stderr),
        (Some(0), told, String::new())
    );

    let absent = folder.path().join("absent.yaml");
    let absent = absent.to_str().expect("text");
    let asks = file("asks.yaml", "presets: [absent.yaml]\n");
    let bad = run(&["check", absent, &empty, &asks]);
    let why = format!("{absent}: cannot be read: No such file or directory (os error 2)\n");
    assert_eq!(
        bad.stdout,
        format!("{why}{empty}: {nothing}\n{asks}:1:11: presets[0]: {why}")
    );
    assert_eq!(bad.stderr, "training-exporter: 2 of 3 files are wrong\n");
    assert_eq!(bad.code, Some(1));
}

/// What is right and may still not be meant is said where the file is checked, and where it is named.
#[test]
fn what_may_not_be_meant_is_noted() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let rules =
        "about: x\nrules: [{ when: go, emit: start }]\nsamples: [{ line: go, gives: [start] }]\n";
    let shown = "detect: [go]\n";
    let mute = file("mute.yaml", &format!("name: mute\n{rules}"));
    let keras = file("keras.yaml", &format!("name: keras\n{shown}{rules}"));
    let uses = file("uses.yaml", "presets: [mute.yaml, keras.yaml]\n");
    let asks = file(
        "asks.yaml",
        "presets: [mute.yaml]\nlogs: [{ path: a.log, preset: mute }]\n",
    );
    let unseen = "has no `detect:`, so it reads only a log beside which `preset: mute` stands";
    let place =
        "takes the place of the preset `keras` that is there already; a name of its own keeps both";
    let ended = run(&["check", &mute, &keras, &uses, &asks]);
    assert_eq!(
        ended.stdout,
        format!(
            "{mute}: a good preset\n  note: {unseen}\n\
             {keras}: a good preset\n  note: {place}\n\
             {uses}: a good configuration\n  note: {mute}: {unseen}\n  note: {keras}: {place}\n\
             {asks}: a good configuration\n"
        )
    );
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn what_is_none_of_the_files_is_told_as_that() {
    let folder = tempfile::tempdir().expect("a folder");
    let none = "none of the files that are checked: a configuration has one of the keys `logs`, `limits`, `presets` and \
                `run_max`, a preset has `name` and `rules`; a log is read by `replay`";
    for (bytes, told) in [
        (&b"2026-11-28 22:00:00 | INFO | starting\n"[..], none),
        (b"a: b: c\n", none),
        (b"- a\n", none),
        (
            b"\x1f\x8b\x08\x00",
            "cannot be read: compressed by gzip, and no text; unpack it",
        ),
        (
            b"name: \xff\n",
            "cannot be read: byte 6 is no UTF-8, so it is no text",
        ),
    ] {
        let path = folder.path().join("some.log");
        fs::write(&path, bytes).expect("written");
        let path = path.to_str().expect("text");
        let ended = run(&["check", path]);
        assert_eq!(ended.stdout, format!("{path}: {told}\n"));
        assert_eq!(ended.stderr, "training-exporter: the file is wrong\n");
        assert_eq!(ended.code, Some(1), "{path}");
    }
}

#[test]
fn the_reference_has_every_metric_once() {
    let ended = run(&["metrics"]);
    assert_eq!(ended.code, Some(0));
    let mut lines = ended.stdout.lines();
    assert_eq!(lines.next(), Some("| metric | type | labels | meaning |"));
    assert_eq!(lines.next(), Some("|---|---|---|---|"));
    let mut told = Vec::new();
    for line in lines {
        // A `|` in a help text would open a column more.
        assert_eq!(line.matches('|').count(), 5, "{line}");
        let name = line
            .split('`')
            .nth(1)
            .unwrap_or_else(|| panic!("{line}: no name"));
        told.push(name.to_owned());
    }
    let names: Vec<_> = all_metrics()
        .iter()
        .map(|metric| metric.name.to_owned())
        .collect();
    assert_eq!(told, names);
    assert_eq!(
        names.iter().collect::<BTreeSet<_>>().len(),
        names.len(),
        "a name twice"
    );
}

#[test]
fn names_and_labels_are_kept() {
    let now: BTreeSet<String> = all_metrics()
        .iter()
        .map(|metric| {
            format!(
                "{} {} {}",
                metric.name,
                metric.kind,
                metric.labels.join(",")
            )
        })
        .map(|line| line.trim_end().to_owned())
        .collect();
    let path = Path::new("tests/metrics.golden");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let text: String = now.iter().map(|line| format!("{line}\n")).collect();
        fs::write(path, text).expect("written");
    }
    let golden = fs::read_to_string(path).expect("the golden file");
    let golden: BTreeSet<String> = golden.lines().map(str::to_owned).collect();
    let gone: Vec<_> = golden.difference(&now).collect();
    let new: Vec<_> = now.difference(&golden).collect();
    assert!(
        gone.is_empty(),
        "gone or changed: {gone:#?}; instead: {new:#?}\nto remove, rename or re-label a metric breaks rules and \
         dashboards: that is a major version (then UPDATE_GOLDEN=1 cargo test --test cli)"
    );
    assert!(
        new.is_empty(),
        "not in {}: {new:#?}\nUPDATE_GOLDEN=1 cargo test --test cli adds them",
        path.display()
    );
}

/// The README has the reference as the program prints it. `UPDATE_GOLDEN=1` writes it anew.
#[test]
fn the_readme_has_the_reference() {
    const BEGIN: &str = "<!-- metrics -->\n";
    const END: &str = "<!-- end of metrics -->";
    let readme = fs::read_to_string("README.md").expect("the README");
    let (before, rest) = readme.split_once(BEGIN).expect("where it begins");
    let (written, after) = rest.split_once(END).expect("where it ends");
    let now = run(&["metrics"]).stdout;
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let anew = format!("{before}{BEGIN}{now}{END}{after}");
        fs::write("README.md", anew).expect("written");
    } else {
        assert_eq!(written, now, "UPDATE_GOLDEN=1 cargo test --test cli");
    }
}

#[test]
fn help_names_every_command() {
    let help = run(&["--help"]);
    assert_eq!(help.code, Some(0));
    let commands = [
        "serve", "demo", "replay", "explain", "simulate", "diagnose", "check", "metrics",
    ];
    for command in commands {
        let listed = help
            .stdout
            .lines()
            .any(|line| line.trim_start().starts_with(&format!("{command} ")));
        assert!(listed, "{command}:\n{}", help.stdout);
        let own = run(&[command, "--help"]);
        assert_eq!(own.code, Some(0), "{command} --help");
        assert!(
            own.stdout.contains(&format!("training-exporter {command}")),
            "{}",
            own.stdout
        );
    }
}

#[test]
fn a_wrong_call_exits_2_and_names_what_is_wrong() {
    for (args, named) in [
        (&["--no-such-flag"][..], "--no-such-flag"),
        (&["no-such-command"], "no-such-command"),
        (&["replay"], "<LOG>"),
        (&["replay", "--format", "xml", "a.log"], "xml"),
        (&["check"], "<FILES>"),
        (&["metrics", "--log.level", "loud"], "loud"),
    ] {
        let ended = run(args);
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(2), ""),
            "{args:?}"
        );
        assert!(ended.stderr.contains(named), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn what_cannot_be_replayed_exits_1_and_is_named() {
    let log = "tests/logs/written_interrupted/train.log";
    for (args, told) in [
        (
            &["replay", "no/such.log"][..],
            "cannot read no/such.log: No such file or directory (os error 2)",
        ),
        (
            &["replay", "tests"],
            "cannot read tests: a directory, not a regular file",
        ),
        (
            &["replay", "--timeline", "no/such.tsv", log],
            "no/such.tsv: cannot be read: No such file or directory (os error 2)",
        ),
        (
            &["replay", "--preset", "speculator", log],
            &format!(
                "no preset `speculator`, and no file of that name; known are {}",
                presets()
            ),
        ),
    ] {
        let ended = run(args);
        assert_eq!(
            ended.stderr,
            format!("training-exporter: {told}\n"),
            "{args:?}"
        );
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(1), ""),
            "{args:?}"
        );
    }
}

/// `replay | head -1`: the output is larger than a pipe, so the program still writes when nobody reads any more.
#[test]
fn a_reader_that_has_seen_enough_is_no_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("train.log");
    let steps: String = (1..20_000).map(|step| format!("step {step}\n")).collect();
    fs::write(&log, steps).expect("written");
    let mut child = exporter(&["replay", log.to_str().expect("text")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the exporter starts");
    let mut first = String::new();
    let stdout = child.stdout.take().expect("piped");
    BufReader::new(stdout)
        .read_line(&mut first)
        .expect("a line");
    assert!(first.ends_with("<- step 1\n"), "{first}");
    let mut told = String::new();
    let mut stderr = child.stderr.take().expect("piped");
    stderr.read_to_string(&mut told).expect("text");
    assert_eq!(
        (child.wait().expect("ended").code(), told.as_str()),
        (Some(0), "")
    );
}

#[test]
fn the_files_that_the_readme_shows_are_good() {
    let readme = fs::read_to_string("README.md").expect("text");
    let blocks: Vec<&str> = readme
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(blocks.len(), 2, "a configuration and a preset");
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["my-trainer.yaml", "mine.yaml"] {
        fs::write(folder.path().join(name), blocks[1]).expect("written");
    }
    let config = folder.path().join("config.yaml");
    fs::write(&config, blocks[0]).expect("written");
    let both = [config, folder.path().join("mine.yaml")].map(|path| path.display().to_string());
    let ended = run(&["check", &both[0], &both[1]]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
}
