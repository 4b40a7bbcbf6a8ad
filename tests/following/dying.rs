//! A file system that worked and falls silent blinds its runs only, and they are read on when it answers again.

use std::fs;
use std::process::Command;

use super::stage::{Exporter, append, epoch, mounts, until};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/following/server.py");

#[test]
fn what_was_written_while_a_file_system_was_silent_is_read_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for name in ["far", "there", "near"] {
        fs::create_dir(at(name)).expect("a folder");
    }
    let (far, near) = (at("there/train.log"), at("near/train.log"));
    let both = |number| [&far, &near].map(|log| append(log, &epoch(number)));
    both(1);
    let around = ["unshare", "-m", "python3", "-E", SERVER];
    if !mounts(&around, folder.path()) {
        return;
    }
    let here = folder.path().display();
    let logs = format!(
        "- {{path: {here}/far/train.log, run: far}}\n- {{path: {here}/near/train.log, run: near}}\n"
    );
    let exporter = Exporter::within(&around, folder.path(), &logs).expect("the exporter starts");
    let server = fs::read_to_string(at("server")).expect("its number");
    let signal = |name: &str| {
        let told = Command::new("kill").args([name, &server]).status();
        assert!(told.is_ok_and(|status| status.success()), "{name}");
    };
    let of = |name: &str, run: &str| format!("{name}{{run=\"{run}\"}}");
    for run in ["far", "near"] {
        exporter.reaches(&of("training_epoch", run), 1.0);
    }
    exporter.reaches(&of("training_log_polled", "far"), 1.0);
    exporter.reaches(&of("training_log_polled", "near"), 0.0);
    for round in 1..3 {
        signal("-STOP");
        both(2 * round);
        exporter.reaches(&of("training_epoch", "near"), f64::from(2 * round));
        exporter.reaches(&of("training_log_up", "far"), 0.0);
        until("who does not answer is named", || {
            let silent = format!("{here}/far has not answered for");
            exporter.api().contains(&silent).then_some(())
        });
        assert_eq!(exporter.value(&of("training_log_up", "near")), Some(1.0));
        both(2 * round + 1);
        signal("-CONT");
        for run in ["far", "near"] {
            exporter.reaches(&of("training_epoch", run), f64::from(2 * round + 1));
            exporter.reaches(&of("training_log_up", run), 1.0);
        }
    }
    let bytes = fs::metadata(&far).expect("there").len();
    for run in ["far", "near"] {
        exporter.reaches(&of("training_log_bytes_total", run), bytes as f64);
        exporter.reaches(&of("training_log_lines_total", run), 5.0);
        exporter.reaches(&of("training_log_rotations_total", run), 0.0);
    }
}
