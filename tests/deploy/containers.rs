//! Docker's files, as far as they can be asked without its daemon: what they mount and copy exists and suffices, and what
//! runs in them is what the exporter, Prometheus and Grafana accept.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser as _;
use regex::Regex;
use serde_yaml::Value;
use training_exporter::cli::Cli;

use super::{linked, prometheus_accepts, python, skipped, succeeds, text};
use crate::support::{EXPORTER, pipe};

const DOCKER: &str = "deploy/docker";
const DOCKERFILE: &str = "deploy/docker/Dockerfile";

/// The file as Docker sees it: variables filled in by their defaults, anchors merged.
fn compose() -> Value {
    let variable = Regex::new(r"\$\{\w+:-([^}]*)\}").expect("a pattern");
    let text = text("deploy/docker/compose.yml");
    let filled = variable.replace_all(&text, "$1");
    let mut compose: Value = serde_yaml::from_str(&filled).expect("YAML");
    compose.apply_merge().expect("anchors");
    compose
}

fn words(value: &Value) -> Vec<String> {
    let all = value.as_sequence().into_iter().flatten();
    all.map(|word| word.as_str().expect("a word").to_owned())
        .collect()
}

/// What a service mounts from the repository: the path there, and the one in the container.
fn mounts(service: &Value) -> Vec<(PathBuf, String)> {
    words(&service["volumes"])
        .iter()
        .filter(|mount| mount.starts_with('.'))
        .map(|mount| {
            let parts: Vec<&str> = mount.split(':').collect();
            assert_eq!(parts[2], "ro", "{mount}");
            (Path::new(DOCKER).join(parts[0]), parts[1].to_owned())
        })
        .collect()
}

/// The first stage's `COPY` instructions.
fn copied() -> Vec<String> {
    let text = text(DOCKERFILE);
    let stage = text.split("\nFROM ").nth(1).expect("a first stage");
    stage
        .lines()
        .filter_map(|line| line.strip_prefix("COPY "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn what_is_mounted_is_there() {
    let compose = compose();
    let services = compose["services"].as_mapping().expect("services");
    let mut mounted = BTreeSet::new();
    for service in services.values() {
        for (path, _) in mounts(service) {
            let real = fs::canonicalize(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
            mounted.insert(real);
        }
    }
    for path in ["alerts", "grafana/provisioning", "grafana/dashboards"] {
        let real = fs::canonicalize(path).expect("there");
        assert!(mounted.contains(&real), "{path} is mounted nowhere");
    }
}

#[test]
fn the_exporters_are_asked_what_they_understand() {
    let compose = compose();
    for (service, profile) in [("demo", "demo"), ("exporter", "gpu")] {
        let service = &compose["services"][service];
        assert_eq!(words(&service["profiles"]), [profile]);
        assert_eq!(words(&service["cap_drop"]), ["ALL"]);
        assert_eq!(service["read_only"], true);
        let mut line = vec!["training-exporter".to_owned()];
        line.extend(words(&service["command"]));
        Cli::try_parse_from(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
        assert_eq!(
            words(&service["networks"]["default"]["aliases"]),
            ["training-exporter"]
        );
    }
    assert_eq!(
        words(&compose["services"]["exporter"]["cap_add"]),
        ["SYS_PTRACE", "DAC_READ_SEARCH"]
    );
}

#[test]
fn prometheus_finds_exporter_rules_and_alertmanager() {
    let compose = compose();
    let root = tempfile::tempdir().expect("a folder");
    for (path, place) in mounts(&compose["services"]["prometheus"]) {
        linked(root.path(), &path, &place);
    }
    let config = root.path().join("etc/prometheus/prometheus.yml");
    // Where the links lead, paths are not relative to the links.
    let real = fs::read_to_string(&config).expect("mounted");
    fs::remove_file(&config).expect("a link");
    fs::write(&config, &real).expect("written");
    let rules = glob::glob("alerts/*.rules.yml").expect("a pattern").count();
    assert!(rules > 0 && prometheus_accepts(&config) >= rules);
    for peer in ["training-exporter:9841", "alertmanager:9093"] {
        assert!(real.contains(&format!("- targets: ['{peer}']")), "{peer}");
    }
    assert!(!compose["services"]["alertmanager"].is_null());
}

#[test]
fn grafana_finds_its_dashboards_and_prometheus() {
    let compose = compose();
    let grafana = mounts(&compose["services"]["grafana"]);
    let place_of = |path: &str| {
        let real = fs::canonicalize(path).expect("there");
        let found = grafana
            .iter()
            .find(|(mounted, _)| fs::canonicalize(mounted).is_ok_and(|mounted| mounted == real));
        found.expect("mounted").1.clone()
    };
    assert_eq!(
        place_of("grafana/provisioning"),
        "/etc/grafana/provisioning"
    );
    let dashboards = place_of("grafana/dashboards");
    let provided = |pattern: &str| -> String {
        let files = glob::glob(pattern).expect("a pattern").flatten();
        files
            .map(|file| fs::read_to_string(file).expect("text"))
            .collect()
    };
    let provider = provided("grafana/provisioning/dashboards/*.yml");
    assert!(
        provider.contains(&format!("path: {dashboards}\n")),
        "{provider}"
    );
    let source = provided("grafana/provisioning/datasources/*.yml");
    assert!(source.contains("url: http://prometheus:9090\n"), "{source}");
    let environment = &compose["services"]["grafana"]["environment"];
    let home = environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"].as_str();
    let name = home.and_then(|home| home.strip_prefix(&dashboards));
    let file = format!("grafana/dashboards{}", name.expect("among the dashboards"));
    assert!(Path::new(&file).exists(), "{file}");
}

/// The files that the library under test was made of, by the compiler's own list: the youngest that stands beside a library.
fn made_of() -> String {
    let folder = Path::new(EXPORTER).with_file_name("deps");
    let lists = fs::read_dir(&folder).expect("what Cargo made");
    let lists = lists.filter_map(|entry| {
        let entry = entry.expect("a file");
        let name = entry.file_name().into_string().ok()?;
        let name = name.strip_suffix(".d")?;
        let library = name.starts_with("training_exporter-")
            && folder.join(format!("lib{name}.rlib")).exists();
        let made = entry
            .metadata()
            .expect("a file")
            .modified()
            .expect("a time");
        library.then(|| (made, entry.path()))
    });
    let list = fs::read_to_string(lists.max().expect("a library").1).expect("a list");
    let line = list.lines().find_map(|line| line.split_once(": "));
    line.expect("a library and its files").1.to_owned()
}

/// Nothing is built here; but Cargo finds the workspace whole in what the image gets, and so does the compiler.
#[test]
fn what_the_image_is_built_from_suffices() {
    let root = tempfile::tempdir().expect("a folder");
    let ignored = text("deploy/docker/Dockerfile.dockerignore");
    for line in copied() {
        let names: Vec<&str> = line.split(' ').collect();
        let (place, sources) = names.split_last().expect("a place");
        for source in sources {
            assert!(
                ignored.lines().any(|line| line == format!("!{source}")),
                "{source} is not sent to the builder"
            );
            let place = root
                .path()
                .join(if *place == "./" { source } else { place });
            fs::create_dir_all(place.parent().expect("below the root")).expect("a folder");
            succeeds(Command::new("cp").args(["-r", source]).arg(place));
        }
    }
    let whole = ["metadata", "--offline", "--locked", "--format-version=1"];
    succeeds(
        Command::new(env!("CARGO"))
            .args(whole)
            .current_dir(root.path()),
    );
    let made_of = made_of();
    let files: Vec<&str> = made_of.split_whitespace().collect();
    assert!(files.len() > 50, "{files:?}");
    for file in files {
        let below = file.strip_prefix(concat!(env!("CARGO_MANIFEST_DIR"), "/"));
        let below = below.unwrap_or(file);
        assert!(root.path().join(below).exists(), "{below} is not copied");
    }
    let build =
        "RUN cargo build --release --locked --package training-exporter --bin training-exporter\n";
    let dockerfile = text(DOCKERFILE);
    assert!(dockerfile.contains(build));
    let rust = concat!(
        "FROM rust:",
        env!("CARGO_PKG_RUST_VERSION"),
        "-slim-bookworm AS build\n"
    );
    assert!(dockerfile.contains(rust), "{rust}");
    assert!(dockerfile.contains("/build/target/release/training-exporter "));
}

#[test]
fn the_linter_of_dockerfiles_finds_no_fault() {
    let Some(python) = python() else {
        return;
    };
    let hadolint = python.with_file_name("hadolint");
    if hadolint.exists() {
        succeeds(Command::new(hadolint).arg(DOCKERFILE));
    } else {
        skipped("no hadolint here");
    }
}

/// The merged file, as the Compose Specification's own types read it.
#[test]
fn the_composition_keeps_to_its_specification() {
    let Some(python) = python() else {
        return;
    };
    let read =
        "import sys; from compose_spec import PyCompose; PyCompose.from_json(sys.stdin.read())";
    let accepts = |compose: &Value| {
        let json = serde_json::to_string(compose).expect("JSON");
        let python = python.to_str().expect("a path");
        pipe(python, &["-c", read], &json).0
    };
    let mut compose = compose();
    assert!(accepts(&compose));
    compose["services"]["demo"]["cap_dropp"] = Value::Bool(true);
    assert!(!accepts(&compose), "a misspelt key is refused");
}
