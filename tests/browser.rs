//! The status page in a real headless Chromium: the demo's silent validation and its hang, an empty node, many runs, a log
//! that cannot be read any more; with and without script, by day and by night, at a desk and on a phone.
//!
//! Pictures go to `target/browser/`; `tests/picture.sh` makes the README's one from them.

#![expect(clippy::disallowed_methods, reason = "it starts programs")]

#[path = "browser/checks.rs"]
mod checks;
#[path = "browser/chromium.rs"]
mod chromium;
mod support;

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use checks::{check, findings, keep, quiet, spoken};
use chromium::{Chromium, Tab};
use support::{EXPORTER, Running, get, serving};

const HEALTHY: &str = "eagle3_validation_healthy";
const HANGS: &str = "eagle3_validation_read_hangs";
/// How many times faster the demo is played for the README's picture.
const PICTURE: &str = "TRAINING_EXPORTER_PICTURE_SPEED";
/// How wide a half of the README's picture is, and with how many dots a pixel.
const HALF: u32 = 620;
const DOTS: f64 = 1.5;

/// The demo, where it listens, and what it goes on to say.
fn demo() -> (Running, SocketAddr, Receiver<String>) {
    let speed = env::var(PICTURE).unwrap_or_else(|_| "20".to_owned());
    let mut command = Command::new(EXPORTER);
    command.args([
        "demo",
        "--speed",
        &speed,
        "--web.listen-address",
        "127.0.0.1:0",
    ]);
    command.args(["--log.level", "warn"]);
    let (demo, mut lines) = Running::start(&mut command);
    let address = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| Some(line.split("http://").nth(1)?.split('/').next()?.to_owned()))
        .and_then(|address| address.parse().ok())
        .expect("it tells where to look");
    let (say, said) = channel();
    thread::spawn(move || {
        lines
            .map_while(Result::ok)
            .try_for_each(|line| say.send(line))
    });
    (demo, address, said)
}

/// Waits until the facts of a run are as wanted.
fn until(address: SocketAddr, run: &str, want: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let (_, json) = get(address, "/api/v1/runs");
        let view: Value = serde_json::from_str(&json).expect("JSON");
        let runs = view["runs"].as_array().expect("a list");
        if let Some(run) = runs.iter().find(|view| view["run"] == run && want(view)) {
            return run.clone();
        }
        assert!(began.elapsed() < Duration::from_secs(300), "{run}: {json}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn text(chromium: &mut Chromium, tab: &Tab) -> String {
    let text = chromium.value(tab, "document.body.innerText");
    text.as_str().expect("text").to_owned()
}

#[test]
fn a_silent_validation_and_a_hung_one_are_told_apart() {
    let mut chromium = Chromium::start();
    let (_demo, address, said) = demo();
    let origin = format!("http://{address}");
    let page = format!("{origin}/?pause=1");
    let tab = chromium.tab();

    // Late enough in the picture that its log has been silent for a while.
    let enough = if env::var_os(PICTURE).is_some() {
        0.8
    } else {
        0.2
    };
    let some = |run: &Value| run["validation"]["ratio"].as_f64() > Some(enough);
    until(address, HEALTHY, |run| {
        run["verdict"] == "validation_idle" && some(run)
    });
    chromium.open(&tab, &page);
    let idle = text(&mut chromium, &tab);
    for words in [
        "Validating, GPUs idle as expected",
        "of 1,866 validation files read, the last one",
        "4 of 4 idle, at 0 % and 80 W.",
        "moves",
    ] {
        assert!(idle.contains(words), "{words}: {idle}");
    }
    assert!(
        !idle.contains("Act now") && !idle.contains("Runbook"),
        "{idle}"
    );
    let left = half(&mut chromium, &tab);
    check(&mut chromium, &tab, "validation-idle");

    let facts = until(address, HANGS, |run| run["verdict"] == "hung");
    chromium.open(&tab, &page);
    let hung = text(&mut chromium, &tab);
    let command = facts["first_step"]["command"].as_str().expect("a command");
    for words in [
        "Act now",
        "Hung in validation",
        "validation files read, then nothing for",
        "4 of 4 idle, at 0 % and 80 W.",
        "Runbook TrainingValidationHung",
        command,
    ] {
        assert!(hung.contains(words), "{words}: {hung}");
    }
    assert!(
        hung.find(HANGS) < hung.find(HEALTHY),
        "the hung one comes first: {hung}"
    );
    let right = half(&mut chromium, &tab);
    check(&mut chromium, &tab, "hung");
    quiet(&mut chromium, &tab, &origin);
    both(&mut chromium, &left, &right);

    // The terminal says what the page says.
    let mut told = said
        .try_iter()
        .filter(|line| line.contains("read_hangs: Hung"));
    let files = facts["validation"]["done"].as_u64().expect("a count");
    let wanted =
        format!("Hung in validation: {files} of 1,866 validation files read, then nothing for");
    assert!(told.any(|line| line.contains(&wanted)), "{wanted}");

    // The runbook is there, too.
    let (status, runbook) = get(address, "/runbooks/TrainingValidationHung");
    assert!(
        status == 200 && runbook.starts_with("# TrainingValidationHung"),
        "{runbook}"
    );
    assert_eq!(get(address, "/runbooks/..%2FREADME").0, 404);

    without_script(&mut chromium, &origin);
}

/// Words, not code: with script forbidden the page says the same, and new ones come.
fn without_script(chromium: &mut Chromium, origin: &str) {
    let tab = chromium.tab();
    chromium.tell(
        &tab,
        "Emulation.setScriptExecutionDisabled",
        json!({"value": true}),
    );
    chromium.open(&tab, &format!("{origin}/"));
    let words: Vec<String> = spoken(chromium, &tab, &["StaticText"])
        .iter()
        .filter_map(|node| Some(node["name"]["value"].as_str()?.trim().to_owned()))
        .collect();
    assert!(
        words.iter().any(|word| word == "Hung in validation"),
        "{words:?}"
    );
    chromium.hear(&tab, "Page.loadEventFired", 3);
    quiet(chromium, &tab, origin);
}

/// The first run down to what its witnesses say, as a half of the picture.
fn half(chromium: &mut Chromium, tab: &Tab) -> (Vec<u8>, f64) {
    chromium.window(tab, HALF, DOTS, "light");
    let part = "(() => { const a = document.querySelector('article').getBoundingClientRect(); \
        const g = document.querySelector('.witnesses').getBoundingClientRect(); \
        return [a.x, a.y + scrollY, a.width, g.bottom - a.y + 24]; })()";
    let part: [f64; 4] = serde_json::from_value(chromium.value(tab, part)).expect("four numbers");
    (chromium.picture(tab, Some(part)), part[3])
}

/// Both verdicts side by side: the README's picture.
fn both(chromium: &mut Chromium, left: &(Vec<u8>, f64), right: &(Vec<u8>, f64)) {
    let tab = chromium.tab();
    chromium.window(&tab, 2 * HALF, DOTS, "light");
    let image = |(png, height): &(Vec<u8>, f64)| {
        let data = BASE64_STANDARD.encode(png);
        format!("<img height={height} src='data:image/png;base64,{data}'>")
    };
    let html = format!(
        "<style>body{{margin:0;padding:12px 0;background:#f5f6f8;display:flex;gap:12px;justify-content:center;\
         align-items:flex-start}}</style>{}{}",
        image(left),
        image(right)
    );
    let frame =
        chromium.tell(&tab, "Page.getFrameTree", json!({}))["frameTree"]["frame"]["id"].clone();
    chromium.tell(
        &tab,
        "Page.setDocumentContent",
        json!({"frameId": frame, "html": html}),
    );
    chromium.value(
        &tab,
        "Promise.all([...document.images].map(image => image.decode()))",
    );
    let height = left.1.max(right.1) + 24.0;
    let picture = chromium.picture(&tab, Some([0.0, 0.0, f64::from(2 * HALF), height]));
    keep("picture.png", &picture);
}

#[test]
fn an_empty_node_says_what_it_looked_at() {
    let mut chromium = Chromium::start();
    let (_running, address) = serving(&["--log.path=/nowhere/*/train.log".to_owned()]);
    let tab = chromium.tab();
    let origin = format!("http://{address}");
    chromium.open(&tab, &format!("{origin}/?pause=1"));
    let page = text(&mut chromium, &tab);
    for words in [
        "No run was found",
        "/nowhere/*/train.log",
        "training-exporter demo",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    check(&mut chromium, &tab, "empty");
    quiet(&mut chromium, &tab, &origin);
    // What finds nothing can find something.
    chromium.value(
        &tab,
        "document.body.style.color = '#888'; document.querySelector('html').lang = ''",
    );
    if let Some(found) = findings(&mut chromium, &tab) {
        let found = found.to_string();
        assert!(
            found.contains("color-contrast") && found.contains("html-has-lang"),
            "{found}"
        );
    }
}

#[test]
fn many_runs_are_rows_and_one_that_cannot_be_read_comforts_nobody() {
    let mut chromium = Chromium::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = |n: u32| {
        folder
            .path()
            .join(format!("a-long-name-of-a-run-{n:02}.log"))
    };
    let (_running, address) = serving(&[format!("--log.path={}/*.log", folder.path().display())]);
    for n in 0..20 {
        fs::write(log(n), "INFO Training epoch 1/3 started\n").expect("written");
    }
    let name = |n: u32| {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        format!("a-long-name-of-a-run-{n:02}@{}", host.trim())
    };
    until(address, &name(7), |run| run["phase"] == "train");
    fs::write(
        log(7),
        "INFO Training epoch 1/3 started\nINFO Validation epoch 1/3 started\n",
    )
    .expect("written");
    until(address, &name(7), |run| run["verdict"] == "validating");
    // A link that leads to itself: nobody can read it, not even root.
    fs::remove_file(log(7)).expect("removed");
    std::os::unix::fs::symlink(log(7), log(7)).expect("linked");
    until(address, &name(7), |run| run["verdict"] == "blind");

    let tab = chromium.tab();
    let origin = format!("http://{address}");
    chromium.open(&tab, &format!("{origin}/?pause=1"));
    let page = text(&mut chromium, &tab);
    assert!(page.contains("20 runs: 1 look"), "{page}");
    let first = chromium.value(&tab, "document.querySelector('.overview li').innerText");
    let first = first.as_str().expect("text");
    assert!(
        first.contains(&name(7)) && first.contains("Blind"),
        "{first}"
    );
    check(&mut chromium, &tab, "many");

    chromium.value(&tab, "document.querySelector('.overview li a').click()");
    chromium.hear(&tab, "Page.loadEventFired", 2);
    let one = text(&mut chromium, &tab);
    assert!(
        one.contains("as last known") && one.contains("timeout 10 ls -l"),
        "{one}"
    );
    for comfort in ["as expected", "OK", "moves", "to go"] {
        assert!(!one.contains(comfort), "{comfort}: {one}");
    }
    quiet(&mut chromium, &tab, &origin);
}
