//! Where inotify is limited, or loses events, or its folder goes, logs are followed all the same, and it is told.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use super::stage::{Exporter, append, epoch, until};
use super::support::series;

const ERRORS: &str = "training_exporter_watch_errors_total";

/// Starts what follows with this limit of the kernel, in a user namespace of its own.
fn limited<'a>(limit: &'a str, script: &'a mut String) -> [&'a str; 6] {
    *script = format!("echo {limit} && exec \"$@\"");
    ["unshare", "-Ur", "sh", "-c", script, "sh"]
}

#[test]
fn without_watches_or_an_instance_logs_are_looked_at_every_second() {
    for (limit, errors) in [
        ("3 > /proc/sys/user/max_inotify_watches", 3.0),
        ("0 > /proc/sys/user/max_inotify_instances", 1.0),
    ] {
        let mut script = String::new();
        let around = limited(limit, &mut script);
        let can = Command::new(around[0])
            .args(&around[1..])
            .arg("/bin/true")
            .status();
        if !can.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no user namespace may be made here");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let logs: Vec<PathBuf> = (0..6)
            .map(|n| folder.path().join(format!("{n}/train.log")))
            .collect();
        let mut config = String::new();
        for (n, log) in logs.iter().enumerate() {
            fs::create_dir(log.parent().expect("a folder")).expect("made");
            append(log, &epoch(1));
            config += &format!("- {{path: {}, run: r{n}}}\n", log.display());
        }
        let exporter = Exporter::within(&around, folder.path(), &config).expect("it starts");
        let all = |wanted: f64| {
            for n in 0..logs.len() {
                exporter.reaches(&format!("training_epoch{{run=\"r{n}\"}}"), wanted);
            }
        };
        all(1.0);
        exporter.reaches(ERRORS, errors);
        logs.iter().for_each(|log| append(log, &epoch(2)));
        all(2.0);
        let deaf = exporter
            .status()
            .matches("Looked at every second: without a watch")
            .count();
        assert!(deaf >= errors as usize, "{limit}: {deaf} are told");
        let page = exporter.page();
        let polled = series(&page).filter(|(name, _)| name.starts_with("training_log_polled{"));
        let polled: f64 = polled.map(|(_, value)| value).sum();
        assert_eq!(polled, deaf as f64, "{limit}: the page says so, too");
    }
}

#[test]
fn lost_events_are_told_and_lose_no_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("train.log");
    append(&log, &epoch(1));
    let exporter = Exporter::follows(
        folder.path(),
        &format!("- {{path: {}, run: r}}\n", log.display()),
    );
    exporter.reaches("training_epoch{run=\"r\"}", 1.0);
    exporter.reaches("training_log_polled{run=\"r\"}", 0.0);
    let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("a limit");
    let queue: usize = queue.trim().parse().expect("a number");
    exporter.running.signal("STOP");
    // Equal neighbours are one event: two files in turn fill the queue.
    let mut files = ["a", "b"].map(|name| File::create(folder.path().join(name)).expect("made"));
    for n in 0..queue + 1000 {
        files[n % 2].write_all(b"x").expect("written");
    }
    append(&log, &epoch(2));
    exporter.running.signal("CONT");
    exporter.reaches("training_epoch{run=\"r\"}", 2.0);
    until("the loss is told", || {
        exporter.value(ERRORS).filter(|&errors| errors >= 1.0)
    });
}

#[test]
fn a_folder_that_was_deleted_and_made_again_is_followed_and_watched_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let logs = folder.path().join("logs");
    let log = logs.join("train.log");
    fs::create_dir(&logs).expect("made");
    append(&log, &epoch(1));
    let exporter = Exporter::follows(
        folder.path(),
        &format!("- {{path: {}, run: r}}\n", log.display()),
    );
    for round in 1..4 {
        exporter.reaches("training_epoch{run=\"r\"}", f64::from(2 * round - 1));
        fs::remove_dir_all(&logs).expect("deleted");
        fs::create_dir(&logs).expect("made");
        append(&log, &epoch(2 * round));
        exporter.reaches("training_epoch{run=\"r\"}", f64::from(2 * round));
        exporter.reaches("training_log_polled{run=\"r\"}", 0.0);
        append(&log, &epoch(2 * round + 1));
    }
    exporter.reaches("training_epoch{run=\"r\"}", 7.0);
    assert_eq!(exporter.value(ERRORS), Some(0.0));
}
