//! Words that would break out of a label, of JSON or of the page: each comes back as what it is, and runs nothing.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::stage::{Serving, plain, prometheus, serve, until};
use super::support::{EXPORTER, chromium, pipe};

/// Each is the name of a run, of its user and of its team.
const NAMES: [&str; 12] = [
    "\"} 1\ntraining_log_up{run=\"forged",
    "back\\slash\\n\\\"",
    "# HELP training_log_up forged",
    "a\nb\r\nc\td",
    "<script>document.title='pwned';alert(1)</script>",
    "</h2></article></style></title><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "&lt;b&gt; &amp; &#60;",
    "nul\0bell\x07escape\x1b[31m",
    "\u{202e}gnuH\u{202c} \u{2066}isolate \u{200f}mark",
    "{{ $labels.run }} ${x} %s",
    "\u{feff}e\u{301}\u{1f600}",
];

/// Log lines that bring their own words into names and numbers.
const LINES: &[u8] = b"MyTrainer v1\n<script>alert(1)</script> epoch 1 of 3\nmetric \"><img src=x onerror=alert(2)> = 1\n\
    metric a\\\"} 5\\n = 2\nmetric \xff\xfe<b> = 3\nmetric nan = nan\nstep 18446744073709551616 \x1b]0;title\x07\n";

const PRESET: &str = "name: '<i>\"mine\\'\nabout: x\ndetect: ['^MyTrainer']\nrules:\n- {when: 'epoch (?<epoch>\\d+) of (?<epochs>\\d+)', \
    emit: [epoch, {phase: train}]}\n- {when: '^metric (?<k>.*) = (?<value>\\S+)$', emit: [{value: 'v{k}'}]}\n\
    samples:\n- {line: 'epoch 1 of 3', gives: [epoch 1/3, phase train]}\n";

fn hostile() -> Serving {
    let serving = serve(|folder| {
        fs::write(folder.join("mine.yaml"), PRESET).expect("written");
        let mut config = "presets: [mine.yaml]\nlogs:\n".to_owned();
        let mut add = |path: String, names: Option<&str>| {
            let quoted = |text: &str| serde_json::to_string(text).expect("text");
            let names = names.map(|name| {
                let name = quoted(name);
                format!(", run: {name}, user: {name}, team: {name}")
            });
            config += &format!(
                "- {{path: {}{}}}\n",
                quoted(&path),
                names.unwrap_or_default()
            );
        };
        for (i, name) in NAMES.iter().enumerate() {
            let log = folder.join(format!("{i}.log"));
            let long = format!("metric {} = 4\n", "x".repeat(1 << 20));
            fs::write(&log, [LINES, long.as_bytes()].concat()).expect("written");
            add(log.display().to_string(), Some(name));
        }
        // Names that come from the file system.
        let files = folder.join("files");
        fs::create_dir(&files).expect("made");
        for name in [
            "a\"} 1\nb",
            "<script>alert(3)<",
            "\u{202e}gol",
            &"n".repeat(250),
        ] {
            fs::write(files.join(format!("{name}.log")), LINES).expect("written");
        }
        add(format!("{}/*.log", files.display()), None);
        let file = folder.join("config.yaml");
        fs::write(&file, config).expect("written");
        vec!["--config.file".to_owned(), file.display().to_string()]
    });
    until("all logs are read", || {
        let page = plain(serving.address, "/metrics", "").text();
        let read = page
            .lines()
            .filter(|line| line.starts_with("training_epoch{"))
            .count();
        (read == NAMES.len() + 4).then_some(())
    });
    serving
}

/// The labels of every series of this name.
fn labels(page: &str, name: &str) -> Vec<Vec<(String, String)>> {
    let lines = page
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    lines.map(pairs).collect()
}

/// Reads `name="value",...}` as the text format has it.
fn pairs(mut rest: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut all = after.char_indices();
        let end = loop {
            match all.next().expect("a value ends") {
                (end, '"') => break end,
                (_, '\\') => match all.next().expect("something escaped").1 {
                    'n' => value.push('\n'),
                    c => value.push(c),
                },
                (_, c) => value.push(c),
            }
        };
        pairs.push((name.trim_start_matches(',').to_owned(), value));
        rest = &after[end + 1..];
        if rest.starts_with('}') {
            break;
        }
    }
    pairs
}

#[test]
fn labels_json_and_the_page_give_back_what_was_put_in() {
    let serving = hostile();
    let page = plain(serving.address, "/metrics", "").text();
    let (good, said) = pipe("promtool", &["check", "metrics"], &page);
    assert!(good, "{said}");
    let infos = labels(&page, "training_run_info");
    for name in NAMES {
        let of = |label: &str| (label.to_owned(), name.to_owned());
        let found = infos.iter().any(|info| {
            ["run", "user", "team"]
                .iter()
                .all(|label| info.contains(&of(label)))
        });
        assert!(found, "{name:?} in {infos:#?}");
    }
    let values = labels(&page, "training_value");
    let told: Vec<&str> = values
        .iter()
        .flatten()
        .filter(|(label, _)| label == "name")
        .map(|(_, value)| value.as_str())
        .collect();
    assert!(
        told.contains(&"v\"><img src=x onerror=alert(2)>"),
        "{told:?}"
    );
    assert!(
        told.iter().all(|name| name.len() < 200),
        "no name is as long as the log likes"
    );
    assert!(page.len() < 2 << 20, "{} bytes", page.len());

    // A real Prometheus reads the same names.
    let (_prometheus, prometheus) = prometheus(&serving, "scheme: http");
    let read = until("Prometheus knows the runs", || {
        let answer = plain(prometheus, "/api/v1/label/run/values", "").text();
        let answer: Value = serde_json::from_str(&answer).ok()?;
        let runs: Vec<String> = serde_json::from_value(answer["data"].clone()).ok()?;
        (runs.len() >= NAMES.len() + 4).then_some(runs)
    });
    assert!(
        NAMES.iter().all(|name| read.iter().any(|run| run == name)),
        "{read:?}"
    );

    let json = plain(serving.address, "/api/v1/runs", "").text();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let runs: Vec<&str> = json["runs"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|run| run["run"].as_str())
        .collect();
    assert!(NAMES.iter().all(|name| runs.contains(name)), "{runs:?}");
}

#[test]
fn a_browser_shows_them_and_runs_nothing() {
    let serving = hostile();
    let answer = plain(serving.address, "/", "");
    assert!(
        answer
            .head
            .contains("content-security-policy: default-src 'none'; style-src 'sha256-"),
        "{}",
        answer.head
    );
    for header in [
        "x-frame-options: deny",
        "referrer-policy: no-referrer",
        "x-content-type-options: nosniff",
    ] {
        assert!(answer.head.contains(header), "{}", answer.head);
    }
    let page = answer.text();
    assert!(!page.contains("unsafe-inline") && !page.contains('\0'));
    let profile = tempfile::tempdir().expect("a temporary folder");
    let output = chromium(profile.path())
        .args(["--enable-logging=stderr", "--dump-dom"])
        .arg(format!("http://{}/", serving.address))
        .output()
        .expect("tests/run.sh installs chromium");
    let dom = String::from_utf8_lossy(&output.stdout);
    let console = String::from_utf8_lossy(&output.stderr);
    assert!(dom.contains("training-exporter"), "{console}");
    for bad in [
        "<script",
        "<img",
        "\u{fffd}<b>",
        "<i>\"",
        "pwned</title>",
        "onerror=\"",
        "onmouseover=\"",
    ] {
        assert!(!dom.contains(bad), "{bad} in {dom}");
    }
    // The style was taken for what its digest says: else Chromium would tell of it.
    assert!(!console.contains("Content Security Policy"), "{console}");
    for name in NAMES {
        let turns = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let shown: String = name
            .chars()
            .map(|c| {
                if c.is_control() {
                    ' '
                } else if turns(c) {
                    '\u{fffd}'
                } else {
                    c
                }
            })
            .collect();
        let shown = shown
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        assert!(dom.contains(&shown), "{shown:?} in {dom}");
    }
}

#[test]
fn a_name_of_a_megabyte_is_refused_with_a_word() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("config.yaml");
    for field in ["run", "user", "team"] {
        let text = format!(
            "logs: [{{path: a.log, {field}: {}}}]\n",
            "x".repeat(1 << 20)
        );
        fs::write(&file, text).expect("written");
        let output = Command::new(EXPORTER)
            .arg("check")
            .arg(&file)
            .output()
            .expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            !output.status.success()
                && said.contains(&format!("logs[0].{field}: longer than 512 bytes")),
            "{said}"
        );
    }
}
