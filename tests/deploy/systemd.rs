//! The unit: right, hardened, and asking for nothing that the exporter does not have.

use std::fs;
use std::process::Command;

use super::{is_good_configuration, knows_flags_of, program, succeeds, taken_up, text};
use crate::support::EXPORTER;

const UNIT: &str = "deploy/systemd/training-exporter.service";
const CAPABILITIES: &str = "deploy/systemd/capabilities.conf";

/// The worst exposure by `systemd-analyze security`; 10 is a service of root without any fence.
const EXPOSURE: f64 = 2.6;

fn exposure(with_capabilities: bool) -> Option<f64> {
    let analyze = program("systemd-analyze")?;
    let folder = tempfile::tempdir().expect("a folder");
    let unit = folder.path().join("training-exporter.service");
    fs::copy(UNIT, &unit).expect("copied");
    if with_capabilities {
        let more = folder.path().join("training-exporter.service.d");
        fs::create_dir(&more).expect("a folder");
        fs::copy(CAPABILITIES, more.join("capabilities.conf")).expect("copied");
    }
    let said = succeeds(
        Command::new(analyze)
            .args(["security", "--offline=true"])
            .arg(unit),
    );
    let told = said.lines().last().expect("a last line");
    let number = told.split_whitespace().find_map(|word| word.parse().ok());
    Some(number.unwrap_or_else(|| panic!("no number: {told}")))
}

#[test]
fn the_service_is_fenced_in() {
    let (Some(plain), Some(capable)) = (exposure(false), exposure(true)) else {
        return;
    };
    assert!(plain <= EXPOSURE, "{plain}");
    assert!(capable <= EXPOSURE, "with capabilities: {capable}");
    assert!(plain < capable, "the drop-in is read: {plain}, {capable}");
}

#[test]
fn systemd_finds_no_fault_in_the_unit() {
    let Some(analyze) = program("systemd-analyze") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let unit = folder.path().join("training-exporter.service");
    // What is not installed here is not the unit's fault.
    let here = text(UNIT).replace("/usr/bin/training-exporter", EXPORTER);
    fs::write(&unit, here).expect("written");
    let said = succeeds(
        Command::new(analyze)
            .args(["verify", "--man=no", "--recursive-errors=no"])
            .arg(&unit),
    );
    assert_eq!(said, "");
}

/// `systemctl reload` sends what the exporter takes as that.
#[test]
fn a_reload_reaches_the_exporter_itself() {
    let unit = text(UNIT);
    let reload = unit.lines().find(|line| line.starts_with("ExecReload="));
    assert_eq!(reload, Some("ExecReload=/bin/kill -HUP $MAINPID"));
}

#[test]
fn the_service_asks_for_what_the_exporter_has() {
    let unit = text(UNIT);
    let start = unit.lines().find(|line| line.starts_with("ExecStart="));
    knows_flags_of(UNIT, start.expect("ExecStart="));
    let defaults = "deploy/systemd/training-exporter.default";
    knows_flags_of(defaults, &taken_up(&text(defaults)).replace("--help", ""));
}

#[test]
fn the_configuration_is_good_as_it_is_and_as_it_offers_to_be() {
    let config = text("deploy/systemd/config.yaml");
    is_good_configuration(&config);
    let offered = taken_up(&config);
    assert!(offered.contains("\nlogs:\n"), "{offered}");
    is_good_configuration(&offered);
}
