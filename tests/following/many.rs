//! Thousands of logs under one pattern: all are followed, and what that costs grows no faster than they do.

use std::fs;

use super::stage::{Exporter, append, epoch, until};

/// Seconds of processor time for each second, while nothing happens to so many logs.
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
    let before = exporter.cpu_seconds();
    std::thread::sleep(std::time::Duration::from_secs(5));
    (exporter.cpu_seconds() - before) / 5.0
}

#[test]
fn thousands_of_logs_cost_no_more_each_than_hundreds() {
    let (few, many) = (cost(200), cost(2000));
    eprintln!("idle: {few:.3} s/s with 200 logs, {many:.3} s/s with 2000");
    // Ten times the logs; twice that for what else the machine does. A small cost is measured coarsely.
    assert!(
        many < 20.0 * few.max(0.01),
        "{many:.3} s/s, and {few:.3} s/s for a tenth of them"
    );
}
