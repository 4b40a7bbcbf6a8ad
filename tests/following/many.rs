//! Thousands of logs under one pattern: all are followed, and what is read for that grows no faster than they do.

use std::fs;

use super::stage::{Exporter, append, epoch, until};

/// How often it reads in five seconds in which nothing happens to so many logs.
fn cost(logs: usize) -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    for n in 0..logs {
        let own = folder.path().join(format!("{:02}", n % 50));
        fs::create_dir_all(&own).expect("made");
        append(&own.join(format!("{n}.log")), &epoch(1));
    }
    let pattern = format!(
        "- path: '{}/*/*.log'\nrun_max: {logs}\n",
        folder.path().display()
    );
    let exporter = Exporter::follows(folder.path(), &pattern);
    exporter.reaches("training_exporter_runs", logs as f64);
    until("all are read", || {
        let page = exporter.page();
        (page.matches("training_log_up{").count() == page.matches("training_epoch{").count())
            .then_some(())
    });
    let before = exporter.reads();
    std::thread::sleep(std::time::Duration::from_secs(5));
    exporter.reads() - before
}

#[test]
fn thousands_of_logs_cost_no_more_each_than_hundreds() {
    let (few, many) = (cost(200), cost(2000));
    // Ten times the logs, and as much again for looks that a busy machine let fall.
    assert!(many < 20.0 * few, "{many} reads, and {few} for a tenth");
}
