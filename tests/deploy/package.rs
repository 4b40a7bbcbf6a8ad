//! The Debian package, built from the manifest and lived through on a machine of its own, with a systemd of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{program, skipped, succeeds};
use crate::support::EXPORTER;

const RECORDED: &str = "tests/joint/eagle3_validation_healthy/train.log";

/// Builds the package below `folder`, with the binary that is under test.
fn build(cargo_deb: &Path, folder: &Path) -> PathBuf {
    // Where cargo-deb looks for what Cargo built.
    let built = folder.join("release");
    fs::create_dir(&built).expect("a folder");
    let binary = built.join("training-exporter");
    fs::copy(EXPORTER, binary).expect("copied");
    let package = folder.join("training-exporter_test.deb");
    succeeds(
        Command::new(cargo_deb)
            .args(["deb", "--no-build", "--locked", "--fast", "--output"])
            .arg(&package)
            .env("CARGO_TARGET_DIR", folder),
    );
    package
}

/// How to become root, if that is possible here and root may mount.
fn as_root() -> Option<Vec<&'static str>> {
    let tries = [vec![], vec!["sudo", "--non-interactive"]];
    let found = tries.into_iter().find(|words| {
        let all: Vec<&str> = (words.iter().copied())
            .chain(["unshare", "--mount", "--propagation", "private", "true"])
            .collect();
        let mut command = Command::new(all[0]);
        command
            .args(&all[1..])
            .output()
            .is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        skipped("nobody may mount here, so no machine can be made to install the package on");
    }
    found
}

#[test]
fn the_package_is_installed_serves_and_goes_without_a_trace() {
    let (Some(cargo_deb), Some(_), Some(root)) =
        (program("cargo-deb"), program("systemd-nspawn"), as_root())
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let package = build(&cargo_deb, folder.path());
    let words: Vec<&str> = root
        .into_iter()
        .chain(["tests/deploy/machine.sh"])
        .collect();
    let said = succeeds(
        Command::new(words[0])
            .args(&words[1..])
            .arg("tests/deploy/trial.sh")
            .arg(&package)
            .arg(RECORDED),
    );
    for fact in [
        "runs as training-exporter, CapEff: 0000000000000000, NoNewPrivs: 1, Seccomp: 2",
        // CAP_DAC_READ_SEARCH is the third bit, CAP_SYS_PTRACE the twentieth.
        "has CapEff: 0000000000080004, CapBnd: 0000000000080004",
        "reason=\"vanished\"",
        "stopped: Result=success ExecMainStatus=0",
        "== nothing is left",
    ] {
        assert!(said.contains(fact), "not said: {fact}\n{said}");
    }
}
