//! What `deploy/` promises, asked of the programs that will read it: systemd, dpkg, Slurm's shell, Helm, Prometheus.
//!
//! No Docker daemon, cluster or Slurm is at hand: what of them was only read and never run, `deploy/README.md` tells.
//! `tests/run.sh` installs the programs; without them a test says that it was skipped.

#![expect(clippy::disallowed_methods, reason = "it starts programs")]

#[path = "deploy/containers.rs"]
mod containers;
#[path = "deploy/kubernetes.rs"]
mod kubernetes;
#[path = "deploy/package.rs"]
mod package;
#[path = "deploy/slurm.rs"]
mod slurm;
mod support;
#[path = "deploy/systemd.rs"]
mod systemd;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use regex::Regex;
use support::EXPORTER;

/// The text of a file of the repository.
fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Says that a test was skipped, and why.
fn skipped(why: &str) {
    let _ = writeln!(io::stderr(), "skipped: {why}");
}

/// A program that `tests/run.sh` installs. There, one that is missing is wrong; elsewhere the test is skipped.
fn program(name: &str) -> Option<PathBuf> {
    let installed = std::env::var_os("TRAINING_EXPORTER_TOOLS").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = (installed.iter().map(|tools| tools.join("bin")))
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file());
    if found.is_none() {
        assert!(installed.is_none(), "tests/run.sh did not install {name}");
        skipped(&format!("no {name} here"));
    }
    found
}

/// The Python with Helm and its helpers, where there is one (`tests/run.sh`).
fn python() -> Option<PathBuf> {
    let tools = std::env::var_os("TRAINING_EXPORTER_TOOLS").map(PathBuf::from);
    let found = tools
        .map(|tools| tools.join("deploy"))
        .filter(|venv| venv.join("ready").exists())
        .map(|venv| venv.join("bin/python"));
    if found.is_none() {
        skipped("no Python with Helm here");
    }
    found
}

/// Runs a command to its end; it must succeed. Returns all that it said.
fn succeeds(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}\n{said}");
    said
}

/// Every flag that a text names, without its dashes.
fn flags(text: &str) -> BTreeSet<String> {
    let pattern = Regex::new(r"--([a-z]+(?:[.-][a-z]+)*)").expect("a pattern");
    pattern
        .captures_iter(text)
        .map(|found| found[1].to_owned())
        .collect()
}

/// The exporter has each flag of `text` that begins with one of its words.
fn knows_flags_of(path: &str, of: &str) {
    let known = flags(&succeeds(Command::new(EXPORTER).arg("--help")));
    let named = flags(of);
    assert!(!named.is_empty(), "{path} names no flag");
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "{path}: no such flag: {unknown:?}");
}

/// `training-exporter check` accepts the configuration, also one in which nothing but offers stands.
fn is_good_configuration(text: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.yaml");
    fs::write(&file, text).expect("written");
    let said = succeeds(Command::new(EXPORTER).arg("check").arg(&file));
    let offers = |line: &str| line.trim().is_empty() || line.starts_with('#');
    let good = if text.lines().all(offers) {
        "says nothing; as a configuration, all is by default"
    } else {
        "a good configuration"
    };
    assert!(said.contains(good), "{said}\n{text}");
}

/// What a file offers, commented out, as if somebody had taken the offer: `#word` becomes `word`, `# word` stays.
fn taken_up(text: &str) -> String {
    let offer = Regex::new(r"(?m)^#( *- |  +\S|\S)").expect("a pattern");
    offer.replace_all(text, "$1").into_owned()
}

/// Links `from` to where `to` says, below `root`.
fn linked(root: &Path, from: &Path, to: &str) {
    let place = root.join(to.trim_start_matches('/'));
    fs::create_dir_all(place.parent().expect("below the root")).expect("a folder");
    std::os::unix::fs::symlink(fs::canonicalize(from).expect("there"), place).expect("a link");
}

/// `promtool check config`, which also reads the rules; how many of their files it found.
fn prometheus_accepts(config: &Path) -> usize {
    let Some(promtool) = program("promtool") else {
        return usize::MAX;
    };
    let said = succeeds(Command::new(promtool).args(["check", "config"]).arg(config));
    let found = Regex::new(r"(\d+) rule files found").expect("a pattern");
    found
        .captures(&said)
        .map_or(0, |found| found[1].parse().expect("a number"))
}
