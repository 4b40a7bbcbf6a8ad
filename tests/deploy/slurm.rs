//! Prolog and epilog: a node must not be drained because of a monitor, whatever is wrong around them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{is_good_configuration, program, succeeds, text};

const PROLOG: &str = "deploy/slurm/prolog.sh";
const EPILOG: &str = "deploy/slurm/epilog.sh";

/// Runs one as slurmd does, without any variable that is not given; it must succeed and say nothing.
fn run(script: &str, folder: &Path, variables: &[(&str, &str)]) {
    let output: Output = Command::new(fs::canonicalize(script).expect("there"))
        .env_clear()
        .env("TRAINING_EXPORTER_SLURM", folder)
        .envs(variables.iter().copied())
        .output()
        .expect("it starts");
    assert!(
        output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(),
        "{script} {variables:?}: {output:?}"
    );
}

/// Where the link for job 7 leads after a prolog with these variables.
fn shown(variables: &[(&str, &str)]) -> Option<PathBuf> {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("slurm");
    let mut all = vec![("SLURM_JOB_ID", "7")];
    all.extend(variables);
    run(PROLOG, &folder, &all);
    let links = fs::read_dir(&folder).map_or(0, Iterator::count);
    let link = fs::read_link(folder.join("7.log")).ok();
    assert_eq!(links, usize::from(link.is_some()), "{variables:?}");
    link
}

#[test]
fn the_shell_finds_no_fault_in_them() {
    if let Some(shellcheck) = program("shellcheck") {
        succeeds(Command::new(shellcheck).args([PROLOG, EPILOG]));
    }
}

#[test]
fn a_batch_job_shows_its_log() {
    let log = ("SLURM_JOB_STDOUT", "/home/ann/slurm-7.out");
    let there = Some(PathBuf::from(log.1));
    assert_eq!(shown(&[log]), there);
    let relative = [
        ("SLURM_JOB_STDOUT", "out/log"),
        ("SLURM_JOB_WORK_DIR", "/home/ann"),
    ];
    assert_eq!(shown(&relative), Some(PathBuf::from("/home/ann/out/log")));
}

#[test]
fn only_the_node_of_the_batch_script_shows_it() {
    let log = ("SLURM_JOB_STDOUT", "/home/ann/slurm-7.out");
    for (nodes, first) in [
        ("gpu1", "gpu1"),
        ("gpu1,gpu2", "gpu1"),
        ("gpu[03-05,09],login1", "gpu03"),
        ("gpu[3,7]", "gpu3"),
        ("login1,gpu[03-05]", "login1"),
    ] {
        for variable in ["SLURM_JOB_NODELIST", "SLURM_NODELIST"] {
            let on = |node| shown(&[log, (variable, nodes), ("SLURMD_NODENAME", node)]);
            assert!(on(first).is_some(), "{nodes}: {first}");
            assert!(on("gpu9").is_none(), "{nodes}: gpu9");
        }
    }
}

#[test]
fn what_is_no_log_is_not_shown() {
    assert_eq!(shown(&[]), None);
    for log in ["/dev/null", "/home/ann/%x.out", ""] {
        assert_eq!(shown(&[("SLURM_JOB_STDOUT", log)]), None, "{log}");
    }
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("slurm");
    for job in ["", "../../etc/x", "7; true", "-f"] {
        run(
            PROLOG,
            &folder,
            &[("SLURM_JOB_ID", job), ("SLURM_JOB_STDOUT", "/a.log")],
        );
        assert!(!folder.exists(), "{job}");
    }
}

#[test]
fn the_epilog_takes_back_what_the_prolog_made_and_nothing_else() {
    let place = tempfile::tempdir().expect("a folder");
    let log = place.path().join("train.log");
    fs::write(&log, "step 1\n").expect("written");
    let folder = place.path().join("slurm");
    let named = log.to_str().expect("text");
    for job in ["7", "8"] {
        run(
            PROLOG,
            &folder,
            &[("SLURM_JOB_ID", job), ("SLURM_JOB_STDOUT", named)],
        );
    }
    for job in ["7", "", "8.log", "../train"] {
        run(EPILOG, &folder, &[("SLURM_JOB_ID", job)]);
    }
    assert!(folder.join("7.log").symlink_metadata().is_err());
    assert!(folder.join("8.log").exists());
    assert_eq!(fs::read_to_string(&log).expect("still there"), "step 1\n");
}

#[test]
fn nothing_that_is_broken_around_them_makes_them_fail() {
    let place = tempfile::tempdir().expect("a folder");
    let job = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_STDOUT", "/a.log")];
    let file = place.path().join("file");
    fs::write(&file, "").expect("written");
    let closed = place.path().join("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).expect("closed");
    let occupied = place.path().join("occupied");
    fs::create_dir_all(occupied.join("7.log/full")).expect("a folder");
    for folder in [
        &file,
        &closed.join("slurm"),
        &occupied,
        Path::new("/proc/no"),
    ] {
        for variables in [&job[..], &[]] {
            run(PROLOG, folder, variables);
            run(EPILOG, folder, variables);
        }
    }
    // Nor that no command is found.
    run(PROLOG, &file, &[("PATH", ""), job[0], job[1]]);
}

#[test]
fn the_exporter_follows_the_folder_that_they_fill() {
    for path in [PROLOG, EPILOG] {
        assert!(
            text(path).contains("${TRAINING_EXPORTER_SLURM:-/run/training-exporter/slurm}"),
            "{path}"
        );
    }
    let folder = "/run/training-exporter/slurm/*.log";
    assert!(text("deploy/systemd/config.yaml").contains(&format!("- path: {folder}")));
    let hint = text(PROLOG)
        .lines()
        .find_map(|line| Some(line.split_once("config.yaml   ")?.1.to_owned()))
        .expect("the prolog says what to configure");
    assert!(hint.contains(folder), "{hint}");
    is_good_configuration(&hint);
}
