//! The demo, as a new user starts it: the real binary plays two recorded runs, and all that it promises is looked at
//! from outside. Its own series, scrape by scrape, are then put through the alert rules by promtool.

#![expect(
    clippy::disallowed_methods,
    reason = "it starts the program and measures how far it is"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use support::{EXPORTER, Running, get, pipe, series, value};

/// How many times faster than recorded, and the scrape interval of the recorded time in seconds.
const SPEED: f64 = 20.0;
const SCRAPE: f64 = 15.0;
const HEALTHY: &str = "eagle3_validation_healthy";
const HANGS: &str = "eagle3_validation_read_hangs";

/// One scrape: when (Unix seconds), and the page.
struct Scrape {
    at: f64,
    page: String,
}

#[test]
fn the_demo_shows_what_it_promises() {
    let mut command = Command::new(EXPORTER);
    command.args([
        "demo",
        "--speed",
        "20",
        "--web.listen-address",
        "127.0.0.1:0",
        "--log.level",
        "warn",
    ]);
    let (mut demo, lines) = Running::start(&mut command);
    let mut greeting = Vec::new();
    for line in lines {
        let line = line.expect("text");
        let over = line.contains("Ctrl-C");
        greeting.push(line);
        if over {
            break;
        }
    }
    let greeting = greeting.join("\n");
    assert!(
        greeting.contains("all ceilings are divided by 20"),
        "{greeting}"
    );
    let address = greeting
        .split("http://")
        .nth(1)
        .and_then(|rest| rest.split('/').next())
        .expect("where to look");
    let address: SocketAddr = address.parse().expect("an address");

    let scrapes = scrape_until_hung(address);
    in_training(&scrapes);
    in_silent_validation(&scrapes);
    after_the_hang(address, &scrapes);
    through_the_rules(&scrapes);

    demo.signal("TERM");
    assert_eq!(
        demo.end_within(Duration::from_secs(5)),
        Some(0),
        "SIGTERM ends it within 5 s"
    );
}

/// Scrapes every 15 recorded seconds until the second run has been hung for four recorded minutes.
fn scrape_until_hung(address: SocketAddr) -> Vec<Scrape> {
    let began = Instant::now();
    let mut scrapes: Vec<Scrape> = Vec::new();
    let mut hung_since = None;
    for n in 0_u32.. {
        let due = Duration::from_secs_f64(f64::from(n) * SCRAPE / SPEED);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let at = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970")
            .as_secs_f64();
        let (status, page) = get(address, "/metrics");
        assert_eq!(status, 200);
        scrapes.push(Scrape { at, page });
        let (_, runs) = get(address, "/api/v1/runs");
        if hung_since.is_none() && verdict(&runs, HANGS).is_some_and(|run| run["verdict"] == "hung")
        {
            hung_since = Some(began.elapsed());
        }
        if hung_since
            .is_some_and(|since| began.elapsed() - since > Duration::from_secs_f64(240.0 / SPEED))
        {
            return scrapes;
        }
        assert!(
            began.elapsed() < Duration::from_secs(180),
            "not hung after {n} scrapes: {runs}"
        );
    }
    unreachable!("the loop has no end")
}

fn verdict(runs: &str, run: &str) -> Option<serde_json::Value> {
    let view: serde_json::Value = serde_json::from_str(runs).expect("JSON");
    view["runs"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|view| view["run"] == run)
        .cloned()
}

/// The pages on which `run` is in `phase`.
fn while_in<'a>(scrapes: &'a [Scrape], run: &str, phase: &str) -> Vec<&'a Scrape> {
    let wanted = format!("training_phase{{run=\"{run}\",phase=\"{phase}\"}}");
    let found: Vec<&Scrape> = scrapes
        .iter()
        .filter(|s| value(&s.page, &wanted) == Some(1.0))
        .collect();
    for scrape in &found {
        let (clean, said) = pipe("promtool", &["check", "metrics"], &scrape.page);
        assert!(clean, "in {phase}: {said}");
    }
    found
}

fn in_training(scrapes: &[Scrape]) {
    let runs = [HEALTHY, HANGS].map(|run| while_in(scrapes, run, "train"));
    let training: Vec<&Scrape> = runs.into_iter().flatten().collect();
    assert!(!training.is_empty(), "training is never seen");
    let busy = |s: &&Scrape| {
        series(&s.page)
            .filter(|(name, v)| name.starts_with("training_gpu_util_ratio") && *v > 0.9)
            .count()
    };
    assert!(
        training.iter().any(|s| busy(s) == 4),
        "four GPUs work while it trains"
    );
}

/// The log adds no byte, all GPUs stand at 0, and the share of opened files rises.
fn in_silent_validation(scrapes: &[Scrape]) {
    let validating = while_in(scrapes, HEALTHY, "validation");
    let of = |metric: &str, s: &Scrape| value(&s.page, &format!("{metric}{{run=\"{HEALTHY}\"}}"));
    let mut passes: Vec<Vec<(f64, f64)>> = Vec::new();
    for scrape in validating {
        let bytes = of("training_log_bytes_total", scrape).expect("a followed log");
        let Some(share) = of("training_val_progress_ratio", scrape) else {
            continue;
        };
        match passes.last_mut() {
            Some(pass) if pass[0].0 == bytes => pass.push((bytes, share)),
            _ => passes.push(vec![(bytes, share)]),
        }
        // The first look after the edge may still see the last second of training.
        if share > 0.05 {
            let utils: Vec<f64> = series(&scrape.page)
                .filter(|(s, _)| s.starts_with("training_gpu_util_ratio"))
                .map(|(_, v)| v)
                .collect();
            assert_eq!(utils, [0.0; 4]);
        }
    }
    let silent: Vec<_> = passes.iter().filter(|pass| pass.len() >= 3).collect();
    assert_eq!(silent.len(), 2, "two silent passes: {passes:?}");
    for pass in silent {
        assert!(
            pass.windows(2).all(|pair| pair[0].1 < pair[1].1),
            "the share rises: {pass:?}"
        );
        assert!(pass[pass.len() - 1].1 > 0.6, "{pass:?}");
    }
}

fn after_the_hang(address: SocketAddr, scrapes: &[Scrape]) {
    let (clean, said) = pipe(
        "promtool",
        &["check", "metrics"],
        &scrapes[scrapes.len() - 1].page,
    );
    assert!(clean, "after the hang: {said}");
    let (_, runs) = get(address, "/api/v1/runs");
    let hung = verdict(&runs, HANGS).expect("the run");
    assert_eq!(
        (&hung["verdict"], &hung["level"], &hung["phase"]),
        (&"hung".into(), &"critical".into(), &"validation".into())
    );
    let because = hung["because"].as_str().expect("a reason");
    for part in [
        "over the ceiling of 15 s",
        "no work by any process or GPU for",
        "4 of 4 GPUs idle",
    ] {
        assert!(because.contains(part), "{because}");
    }
    let healthy = verdict(&runs, HEALTHY).expect("the run");
    assert_eq!(
        (&healthy["verdict"], &healthy["level"]),
        (&"finished".into(), &"ok".into())
    );
    let (status, page) = get(address, "/");
    assert_eq!(status, 200);
    for words in [
        "Hung in validation",
        "774 of 1,866 validation files read, then nothing for",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

/// Writes the scrapes as the input of a promtool test, in recorded time, and lets the rules judge them.
fn through_the_rules(scrapes: &[Scrape]) {
    let zero = scrapes[0].at;
    let step = |at: f64| ((at - zero) * SPEED / SCRAPE).round() as usize;
    let mut columns: BTreeMap<&str, BTreeMap<usize, f64>> = BTreeMap::new();
    for scrape in scrapes {
        for (name, value) in series(&scrape.page).filter(|(name, _)| name.starts_with("training_"))
        {
            let metric = name.split('{').next().unwrap_or(name);
            let value = if metric.ends_with("_timestamp_seconds") {
                (value - zero) * SPEED
            } else if metric.ends_with("_ceiling_seconds") {
                value * SPEED
            } else {
                value
            };
            columns
                .entry(name)
                .or_default()
                .insert(step(scrape.at), value);
        }
    }
    let last = step(scrapes[scrapes.len() - 1].at);
    let mut test = format!(
        "rule_files: [{0}/recording.rules.yml, {0}/training.rules.yml]\nevaluation_interval: 15s\n\
         group_eval_order: [training-run-facts, training-alerts]\ntests:\n  - interval: 15s\n    input_series:\n",
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("alerts")
            .display(),
    );
    for (name, values) in columns {
        let name = if name.contains('{') {
            name.replacen('{', "{instance=\"demo\",", 1)
        } else {
            format!("{name}{{instance=\"demo\"}}")
        };
        let values: Vec<String> = (0..=last)
            .map(|n| values.get(&n).map_or("stale".to_owned(), f64::to_string))
            .collect();
        let _ = writeln!(
            test,
            "      - {{series: '{name}', values: '{}'}}",
            values.join(" ")
        );
    }
    let expect = |test: &mut String, seconds: f64, select: &str, fires: bool| {
        let samples = if fires {
            "[{labels: '{}', value: 1}]"
        } else {
            "[]"
        };
        let _ = writeln!(
            test,
            "      - {{expr: 'count(ALERTS{{alertstate=\"firing\",{select}}})', eval_time: {seconds:.0}s, exp_samples: {samples}}}"
        );
    };
    test += "    promql_expr_test:\n";
    // The last file of the second run was opened here; its ceiling is five minutes.
    let stopped = columns_stop(scrapes, zero);
    let eval = |seconds: f64| (seconds / SCRAPE).floor() * SCRAPE;
    let times: BTreeSet<u64> = (0..=last).map(|n| n as u64 * SCRAPE as u64).collect();
    for at in times {
        expect(
            &mut test,
            at as f64,
            &format!("run=\"{HEALTHY}\",severity=~\"critical|warning\""),
            false,
        );
    }
    expect(
        &mut test,
        eval(stopped + 200.0),
        "alertname=\"TrainingValidationIdle\"",
        true,
    );
    expect(
        &mut test,
        eval(stopped + 295.0),
        "severity=\"critical\"",
        false,
    );
    expect(
        &mut test,
        eval(stopped + 420.0),
        &format!("alertname=\"TrainingValidationHung\",run=\"{HANGS}\""),
        true,
    );
    expect(
        &mut test,
        eval(stopped + 420.0),
        "alertname!=\"TrainingValidationHung\"",
        false,
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("demo.test.yml");
    std::fs::write(&file, &test).expect("written");
    let (passed, said) = pipe(
        "promtool",
        &["test", "rules", &file.display().to_string()],
        "",
    );
    assert!(passed, "{said}");
}

/// When the second run last progressed, in recorded seconds.
fn columns_stop(scrapes: &[Scrape], zero: f64) -> f64 {
    let wanted = format!("training_last_progress_timestamp_seconds{{run=\"{HANGS}\"}}");
    let last = value(&scrapes[scrapes.len() - 1].page, &wanted).expect("it had progressed");
    (last - zero) * SPEED
}
