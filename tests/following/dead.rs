//! A file system that never answers blinds the runs whose logs it has, and no others.

use std::fs;

use super::stage::{Exporter, append, epoch, mounts, until};

/// Mounts a FUSE file system whose server never says a word, in a mount namespace of its own. The program that takes
/// its place holds the server's end open, so that nothing is left of it when the program ends.
const MOUNT: &str = "
import ctypes, os, sys
device = os.open('/dev/fuse', os.O_RDWR)
options = b'fd=%d,rootmode=40000,user_id=0,group_id=0' % device
if ctypes.CDLL(None).mount(b'dead', b'dead', b'fuse', 0, options):
    sys.exit(77)
os.set_inheritable(device, True)
os.execv(sys.argv[1], sys.argv[1:])
";

#[test]
fn a_file_system_that_never_answers_blinds_its_own_runs_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for name in ["dead", "good"] {
        fs::create_dir(at(name)).expect("a folder");
    }
    fs::write(at("mount.py"), MOUNT).expect("written");
    let around = ["unshare", "-m", "python3", "-E", "mount.py"];
    if !mounts(&around, folder.path()) {
        return;
    }
    std::os::unix::fs::symlink("dead/deep", at("link")).expect("a link");
    append(&at("good/train.log"), &epoch(1));
    let here = folder.path().display();
    // The dead one is met as a log, through a link, by a pattern, and as the data of a run whose log is elsewhere.
    let logs = format!(
        "- {{path: {here}/dead/train.log, run: dead}}\n\
         - {{path: {here}/link/train.log, run: linked}}\n\
         - {{path: '{here}/d*/*/train.log', run: found}}\n\
         - {{path: {here}/good/train.log, run: good, val_data: [{here}/dead/val]}}\n"
    );
    let exporter = Exporter::within(&around, folder.path(), &logs).expect("the exporter starts");
    exporter.reaches("training_epoch{run=\"good\"}", 1.0);
    let dead = format!("{here}/dead");
    until("who does not answer is named", || {
        let told = exporter
            .api()
            .matches(&format!("{dead} has not answered for"))
            .count()
            >= 2;
        (told
            && exporter
                .status()
                .contains(&format!("{dead} does not answer")))
        .then_some(())
    });
    for run in ["dead", "linked"] {
        assert_eq!(
            exporter.value(&format!("training_log_up{{run=\"{run}\"}}")),
            Some(0.0),
            "{run}"
        );
    }
    for source in ["log", "data"] {
        let success = format!("training_exporter_source_success{{source=\"{source}\"}}");
        assert_eq!(exporter.value(&success), Some(0.0), "{source}");
    }
    append(&at("good/train.log"), &epoch(2));
    exporter.reaches("training_epoch{run=\"good\"}", 2.0);
    assert_eq!(exporter.value("training_log_up{run=\"good\"}"), Some(1.0));
    assert_eq!(
        exporter.value("training_exporter_source_success{source=\"process\"}"),
        Some(1.0)
    );
    // The dead ones are let go without their answer.
    let rest = format!("logs:\n- {{path: {here}/good/train.log, run: good}}\n");
    fs::write(at("config.yaml"), rest).expect("written");
    exporter.running.signal("HUP");
    exporter.reaches("training_exporter_runs", 1.0);
    exporter.reaches("training_exporter_source_success{source=\"log\"}", 1.0);
    assert_eq!(exporter.value("training_epoch{run=\"good\"}"), Some(2.0));
    assert!(!exporter.page().contains("source=\"data\""));
    let mut exporter = exporter;
    exporter.running.signal("TERM");
    assert!(
        exporter
            .running
            .end_within(std::time::Duration::from_secs(30))
            .is_some(),
        "it ends"
    );
}
