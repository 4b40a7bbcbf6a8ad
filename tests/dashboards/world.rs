//! A night in a real Prometheus: the scenario's pages as they would have been scraped, and what the recording rules make
//! of them. The rules are evaluated by Prometheus itself, in their order, each over the whole night at once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use prometheus::TextEncoder;
use regex::Regex;
use serde_yaml::Value;
use training_exporter::job::cadence::Limits;
use training_exporter::log::reader::Presets;
use training_exporter::node::gpu::{Gpu, Xid};
use training_exporter::node::process::Counters;
use training_exporter::scenario::simulate::{SCRAPE, Scrape, simulate};
use training_exporter::scenario::spec::Scenario;
use training_exporter::scenario::world::{Library, RecordedLog};
use training_exporter::state::{Run, State};

use super::prometheus::{Labels, Prometheus, Samples, stale};

const NIGHT: &str = "tests/dashboards/night.yaml";

/// The night is written out: it needs no recording.
struct NoRecordings;

impl Library for NoRecordings {
    fn log(&self, name: &str) -> Result<RecordedLog, String> {
        Err(name.to_owned())
    }

    fn evidence(&self, name: &str) -> Result<Vec<(f64, Counters)>, String> {
        Err(name.to_owned())
    }

    fn files(&self, name: &str) -> Result<Vec<(f64, u64)>, String> {
        Err(name.to_owned())
    }
}

/// Prometheus after that night.
pub(crate) fn night() -> Prometheus {
    let text = fs::read_to_string(NIGHT).expect("the night");
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{NIGHT}: {e}"));
    let end = scenario.duration.0;
    let mut scrapes = simulate(&scenario, &NoRecordings, &Presets::built_in()).expect("played");
    scrapes.extend((0..=(end / SCRAPE) as u64).map(|n| board_node(n as f64 * SCRAPE)));
    scrapes.sort_by(|a, b| a.at.total_cmp(&b.at));
    let prometheus = Prometheus::start();
    let all: Vec<_> = series(&scrapes).into_iter().collect();
    for some in all.chunks(500) {
        prometheus.write(some.iter().cloned());
    }
    record(&prometheus, end);
    alert(&prometheus, end);
    prometheus
}

/// A node whose two boards tell all that a driver can tell, which no scenario's boards do. The second one is lost.
fn board_node(t: f64) -> Scrape {
    let lost = t >= 50.0 * 60.0;
    let board = |index: u32| Gpu {
        index,
        uuid: format!("GPU-n4-{index}"),
        up: true,
        name: "H200".to_owned(),
        pci_bus_id: format!("00000000:0{index}:00.0"),
        driver_version: "550".to_owned(),
        mig_mode: "disabled".to_owned(),
        util_source: "samples".to_owned(),
        util: Some(0.9),
        busy_seconds: Some(0.8 * t),
        energy_joules: Some(450.0 * t),
        power_watts: Some(500.0),
        power_limit_watts: Some(700.0),
        memory_used_bytes: Some(60e9),
        memory_capacity_bytes: Some(80e9),
        temperature_celsius: Some(61.0 + f64::from(index)),
        sm_clock_hertz: Some(1.98e9),
        throttle: Some(if index == 0 { 0x4 } else { 0 }),
        ..Gpu::default()
    };
    let mut boards = vec![board(0), board(1)];
    if lost {
        boards[1] = Gpu {
            index: 1,
            uuid: "GPU-n4-1".to_owned(),
            xids: BTreeMap::from([(
                79,
                Xid {
                    count: 1,
                    last: 3000.0,
                },
            )]),
            ..Gpu::default()
        };
    }
    let mut state = State::default();
    state.exporter.runs_limit = 64;
    state.nvml_blocked = Some(0.0);
    state
        .runs
        .insert("whale".to_owned(), Run::new("whale", Limits::default()));
    state.record_gpus(Ok(boards), t);
    state.record_source("nvml", Ok(()), 0.02, t);
    for run in state.runs.values_mut() {
        run.gpus = vec![(0, "GPU-n4-0".to_owned()), (1, "GPU-n4-1".to_owned())];
    }
    let target = t < 75.0 * 60.0;
    let page = TextEncoder::new()
        .encode_to_string(&state.families(t))
        .expect("a page");
    Scrape {
        at: t,
        node: "n4".to_owned(),
        page: target.then_some(page),
        target,
        runs: BTreeMap::new(),
    }
}

/// All series of all pages, each with the mark of its end.
fn series(scrapes: &[Scrape]) -> BTreeMap<Labels, Samples> {
    let mut found: BTreeMap<Labels, BTreeMap<i64, f64>> = BTreeMap::new();
    let mut looked: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for scrape in scrapes {
        let at = (scrape.at * 1000.0) as i64;
        looked.entry(&scrape.node).or_default().push(at);
        let mut add = |series: &str, value: f64| {
            let mut labels = labels(series);
            labels.extend(
                [("instance", &*scrape.node), ("job", "training")]
                    .map(|(n, v)| (n.to_owned(), v.to_owned())),
            );
            found.entry(labels).or_default().insert(at, value);
        };
        if scrape.target {
            add("up", f64::from(u8::from(scrape.page.is_some())));
        }
        for (series, value) in scrape
            .page
            .iter()
            .flat_map(|page| super::support::series(page))
        {
            add(series, value);
        }
    }
    let ended = |(labels, samples): (Labels, BTreeMap<i64, f64>)| {
        let times = &looked[&*labels["instance"]];
        let samples = with_ends(&samples, times);
        (labels, samples)
    };
    found.into_iter().map(ended).collect()
}

/// The samples, and a stale mark at each time at which there is none any more.
fn with_ends(samples: &BTreeMap<i64, f64>, times: &[i64]) -> Samples {
    let mut all = Samples::new();
    let mut there = false;
    for time in times {
        match samples.get(time) {
            Some(value) => all.push((*time, *value)),
            None if there => all.push((*time, stale())),
            None => {}
        }
        there = samples.contains_key(time);
    }
    all
}

/// A series as a page writes it: `name{label="value"}`.
fn labels(series: &str) -> Labels {
    static LABEL: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"(\w+)="((?:[^"\\]|\\.)*)""#).expect("a pattern"));
    let (name, rest) = series.split_once('{').unwrap_or((series, ""));
    let plain = |value: &str| value.replace("\\\"", "\"").replace("\\\\", "\\");
    let mut all: Labels = LABEL
        .captures_iter(rest)
        .map(|label| (label[1].to_owned(), plain(&label[2])))
        .collect();
    all.retain(|_, value| !value.is_empty());
    all.insert("__name__".to_owned(), name.to_owned());
    all
}

/// The rules of a file.
fn rules(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let file: Value = serde_yaml::from_str(&text).expect("YAML");
    let groups = file["groups"].as_sequence().expect("groups");
    groups
        .iter()
        .flat_map(|group| group["rules"].as_sequence().expect("rules").clone())
        .collect()
}

/// What a rule gives over the whole night, under its own labels.
fn given(
    prometheus: &Prometheus,
    rule: &Value,
    end: f64,
    own: &[(&str, &str)],
) -> Vec<(Labels, Samples)> {
    let mut given = prometheus.over(rule["expr"].as_str().expect("an expression"), end, SCRAPE);
    for (labels, _) in &mut given {
        labels.remove("__name__");
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        labels.extend(
            own.iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        labels.extend(
            rule["labels"]
                .as_mapping()
                .into_iter()
                .flatten()
                .map(|(name, value)| (text(name), text(value))),
        );
    }
    given
}

/// Evaluates the recording rules. Each reads only what stands above it, so each may have the whole night at once.
fn record(prometheus: &Prometheus, end: f64) {
    let times: Vec<i64> = (0..=(end / SCRAPE) as i64).map(|n| n * 15_000).collect();
    for rule in rules(Path::new("alerts/recording.rules.yml")) {
        let name = rule["record"].as_str().expect("a name");
        let given = given(prometheus, &rule, end, &[("__name__", name)]).into_iter();
        prometheus.write(
            given.map(|(labels, samples)| {
                (labels, with_ends(&samples.into_iter().collect(), &times))
            }),
        );
    }
}

/// Writes down which alerts fire: those whose expression has held for their `for`, and then for their `keep_firing_for`.
fn alert(prometheus: &Prometheus, end: f64) {
    let times: Vec<i64> = (0..=(end / SCRAPE) as i64).map(|n| n * 15_000).collect();
    for file in glob::glob("alerts/*.rules.yml")
        .expect("a pattern")
        .flatten()
    {
        for rule in rules(&file).iter().filter(|rule| rule["alert"].is_string()) {
            let name = rule["alert"].as_str().expect("a name");
            let own = [
                ("__name__", "ALERTS"),
                ("alertname", name),
                ("alertstate", "firing"),
            ];
            let firing = |(labels, samples): (Labels, Samples)| {
                let held = samples.into_iter().collect();
                (
                    labels,
                    with_ends(
                        &fires(
                            &held,
                            &times,
                            wait(rule, "for"),
                            wait(rule, "keep_firing_for"),
                        ),
                        &times,
                    ),
                )
            };
            prometheus.write(given(prometheus, rule, end, &own).into_iter().map(firing));
        }
    }
}

/// A length of time of a rule, in milliseconds.
fn wait(rule: &Value, name: &str) -> i64 {
    let Some(text) = rule[name].as_str() else {
        return 0;
    };
    let (number, unit) = text.split_at(text.len() - 1);
    let number: i64 = number.parse().expect("a number");
    number
        * if unit == "m" {
            60_000
        } else {
            assert_eq!(unit, "s", "{text}");
            1_000
        }
}

fn fires(held: &BTreeMap<i64, f64>, times: &[i64], wait: i64, keep: i64) -> BTreeMap<i64, f64> {
    let mut all = BTreeMap::new();
    let (mut since, mut last) = (None, None);
    for time in times {
        if held.contains_key(time) {
            if time - *since.get_or_insert(*time) >= wait {
                last = Some(*time);
                all.insert(*time, 1.0);
            }
        } else if last.is_some_and(|last| time - last < keep) {
            all.insert(*time, 1.0);
        } else {
            (since, last) = (None, None);
        }
    }
    all
}
