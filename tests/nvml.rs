//! The GPUs by NVML, read through a real shared library that plays the driver (`tests/fake-nvml`): each field, each
//! failure, and what must outlast a reload of the driver. Below: the worker process, and other readers of NVML.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the clock and start processes"
)]

#[path = "peers/agree.rs"]
mod agree;
#[path = "nvml/node.rs"]
mod node;
#[path = "nvml/worker.rs"]
mod worker;

use std::thread::sleep;
use std::time::{Duration, Instant};

use fake_nvml::{Fake, minimal_library_path};
use training_exporter::node::gpu::{Gpu, THROTTLE};
use training_exporter::node::nvml::Nvml;

use node::{Node, TWO};

#[test]
fn every_field_is_read_right() {
    let mut node = Node::new(TWO);
    let gpus = node.look(0.0);
    let first = Gpu {
        index: 0,
        uuid: "GPU-A".into(),
        up: true,
        name: "NVIDIA H100 80GB HBM3".into(),
        pci_bus_id: "00000000:18:00.0".into(),
        driver_version: "550.54.15".into(),
        mig_mode: "disabled".into(),
        util_source: "samples".into(),
        util: Some(0.97),
        busy_seconds: Some(0.0),
        energy_joules: Some(5_000.0),
        power_watts: Some(0.0),
        power_limit_watts: Some(700.0),
        memory_used_bytes: Some(4_294_967_296.0),
        memory_capacity_bytes: Some(85_899_345_920.0),
        temperature_celsius: Some(64.0),
        sm_clock_hertz: Some(1.98e9),
        throttle: Some(0x4 | 0x8),
        pids: Some(vec![815, 4711]),
        ..Gpu::default()
    };
    assert_eq!(gpus[0], first);
    let second = &gpus[1];
    assert_eq!(second.name, "NVIDIA A30");
    assert_eq!(second.power_watts, Some(250.0));
    assert_eq!(second.pids, Some(Vec::new()));
    // A board in MIG mode has no utilisation: absent, not 0.
    assert_eq!((second.mig_mode.as_str(), second.up), ("enabled", true));
    assert_eq!((second.util, second.busy_seconds), (None, None));
    assert_eq!(second.util_source, "");
    // To be idle is no throttling.
    assert!(
        THROTTLE
            .iter()
            .all(|(bit, _)| second.throttle.unwrap() & bit == 0)
    );
}

#[test]
fn half_a_second_on_and_half_off_is_busy_half_of_the_time() {
    let mut node = Node::new(&[("0.util", "@0 0 @0.5 100 repeat 1.0")]);
    node.look(0.0);
    let (began, mut busy) = (Instant::now(), Vec::new());
    for second in 1..=4 {
        let next = began + Duration::from_secs(second);
        sleep(next.saturating_duration_since(Instant::now()));
        let gpu = node.look(second as f64).remove(0);
        let util = gpu.util.expect("sampled");
        assert!((0.3..=0.7).contains(&util), "{util} of the last second");
        busy.push(gpu.busy_seconds.expect("sampled"));
    }
    let rate = busy[3] / began.elapsed().as_secs_f64();
    assert!((0.43..=0.57).contains(&rate), "{rate} from {busy:?}");
    let twice = node.look(4.0)[0].busy_seconds.unwrap() - busy[3];
    assert!(twice < 0.21, "{twice}: samples are counted once");
}

#[test]
fn without_samples_the_moment_is_polled() {
    let mut node = Node::new(&[("0.util", "80"), ("0.ret.nvmlDeviceGetSamples", "3")]);
    for (now, busy) in [(10.0, 0.0), (11.0, 0.8), (12.5, 2.0), (1_000.0, 3.6)] {
        let gpu = node.look(now).remove(0);
        assert_eq!((gpu.util, gpu.util_source.as_str()), (Some(0.8), "polled"));
        let counted = gpu.busy_seconds.unwrap();
        assert!((counted - busy).abs() < 1e-9, "{counted} at {now}");
    }
}

#[test]
fn each_failure_is_one_absent_field() {
    type Absent = fn(&Gpu) -> bool;
    let fields: [(&str, Absent); 13] = [
        ("PciInfo_v3", |gpu| gpu.pci_bus_id.is_empty()),
        ("Name", |gpu| gpu.name.is_empty()),
        ("MigMode", |gpu| gpu.mig_mode.is_empty()),
        ("UtilizationRates", |gpu| gpu.util.is_none()),
        ("TotalEnergyConsumption", |gpu| gpu.energy_joules.is_none()),
        ("PowerUsage", |gpu| gpu.power_watts.is_none()),
        ("EnforcedPowerLimit", |gpu| gpu.power_limit_watts.is_none()),
        ("MemoryInfo_v2", |gpu| gpu.memory_used_bytes.is_none()),
        ("MemoryInfo_v2", |gpu| gpu.memory_capacity_bytes.is_none()),
        ("Temperature", |gpu| gpu.temperature_celsius.is_none()),
        ("ClockInfo", |gpu| gpu.sm_clock_hertz.is_none()),
        ("CurrentClocksThrottleReasons", |gpu| gpu.throttle.is_none()),
        ("ComputeRunningProcesses_v3", |gpu| gpu.pids.is_none()),
    ];
    let mut node = Node::new(&[("0.ret.nvmlDeviceGetSamples", "3")]);
    let none = |gpu: &Gpu| fields.iter().filter(|(_, absent)| absent(gpu)).count();
    assert_eq!(none(&node.look(0.0)[0]), 0);
    for (function, absent) in fields {
        let key = format!("0.ret.nvmlDeviceGet{function}");
        let together = fields.iter().filter(|(name, _)| *name == function).count();
        for code in ["3", "999", "13", "28"] {
            node.set(&[(&key, code)]);
            let gpu = node.look(1.0).remove(0);
            assert!(gpu.up && absent(&gpu), "{function} {code}");
            assert_eq!(none(&gpu), together, "{function} {code}: {gpu:?}");
        }
        node.set(&[(&key, "default")]);
    }
}

#[test]
fn energy_never_falls_over_a_reload_of_the_driver() {
    let mut node = Node::new(&[("0.energy_mj", "9000000"), ("0.power_mw", "100000")]);
    let mut last = node.look(0.0)[0].energy_joules.unwrap();
    assert!((9_000.0..9_100.0).contains(&last), "{last}");
    for (generation, now) in [("0", 1.0), ("1", 2.0), ("1", 3.0), ("2", 100.0)] {
        node.set(&[("generation", generation), ("0.energy_mj", "7000")]);
        sleep(Duration::from_millis(100));
        let gpu = node.look(now).remove(0);
        let energy = gpu.energy_joules.expect("a reload is followed at once");
        assert!((last..last + 60.0).contains(&energy), "{last} -> {energy}");
        last = energy;
    }
    assert!(last > 9_000.0 + 10.0, "and it goes on: {last}");
}

#[test]
fn a_lost_gpu_stays_in_the_list_and_the_others_are_read() {
    let mut node = Node::new(&[("count", "3")]);
    let uuids: Vec<String> = node.look(0.0).into_iter().map(|gpu| gpu.uuid).collect();
    for function in [
        "",
        ".nvmlDeviceGetHandleByIndex_v2",
        ".nvmlDeviceGetPowerUsage",
    ] {
        let key = format!("1.ret{function}");
        node.set(&[(&key, "15")]);
        let gpus = node.look(1.0);
        let up: Vec<bool> = gpus.iter().map(|gpu| gpu.up).collect();
        assert_eq!(up, [true, false, true], "{key}");
        let lost = Gpu {
            index: 1,
            uuid: uuids[1].clone(),
            name: "NVIDIA H100 80GB HBM3".into(),
            pci_bus_id: gpus[1].pci_bus_id.clone(),
            driver_version: "550.54.15".into(),
            mig_mode: "disabled".into(),
            util_source: "samples".into(),
            ..Gpu::default()
        };
        assert_eq!(gpus[1], lost, "its identity and nothing else");
        assert_eq!(gpus[2].power_watts, Some(70.0));
        node.set(&[(&key, "default")]);
        assert!(node.look(2.0).iter().all(|gpu| gpu.up), "{key}: back again");
    }
    // After a reload one is gone, and another has its index.
    node.set(&[
        ("generation", "1"),
        ("count", "2"),
        ("0.uuid", &uuids[2]),
        ("1.uuid", &uuids[0]),
    ]);
    let gpus = node.look(3.0);
    let shown: Vec<_> = gpus.iter().map(|g| (g.index, &g.uuid, g.up)).collect();
    let expected = [
        (0, &uuids[2], true),
        (1, &uuids[0], true),
        (1, &uuids[1], false),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn when_all_are_lost_the_library_is_opened_again() {
    let mut node = Node::new(&[("count", "2"), ("0.ret", "15"), ("1.ret", "15")]);
    let down = |gpus: Vec<Gpu>| gpus.iter().all(|gpu| !gpu.up && gpu.power_watts.is_none());
    // Nobody has met them yet: they are there without a name.
    assert!(down(node.look(0.0)));
    node.set(&[("0.ret", "default"), ("1.ret", "default")]);
    assert!(
        node.look(1.0)
            .iter()
            .all(|gpu| gpu.up && !gpu.uuid.is_empty())
    );
    node.set(&[("0.ret", "15"), ("1.ret", "15")]);
    let gpus = node.look(100.0);
    assert!(gpus.len() == 2 && gpus.iter().all(|gpu| !gpu.uuid.is_empty()) && down(gpus));
}

#[test]
fn the_same_xid_twice_counts_two() {
    let mut node = Node::new(&[("count", "2"), ("0.xid", "1:13")]);
    node.look(0.0);
    // They begin to listen on threads of their own.
    sleep(Duration::from_millis(500));
    let after = |node: &mut Node, now: f64| {
        sleep(Duration::from_millis(500));
        node.look(now)
    };
    node.set(&[("1.xid", "1:79,2:79"), ("0.xid", "1:13,2:48")]);
    let gpus = after(&mut node, 10.0);
    let told = |gpu: &Gpu| {
        gpu.xids
            .iter()
            .map(|(xid, s)| (*xid, s.count, s.last))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        told(&gpus[0]),
        [(48, 1, 10.0)],
        "what was before is not told"
    );
    assert_eq!(told(&gpus[1]), [(79, 2, 10.0)]);
    // It is lost, as after XID 79: what is known of it stays, and what comes from now on is its own.
    node.set(&[
        ("1.ret.nvmlDeviceGetUUID", "15"),
        ("1.xid", "1:79,2:79,3:79"),
    ]);
    let gpus = after(&mut node, 20.0);
    assert!(!gpus[1].up);
    assert_eq!(told(&gpus[1]), [(79, 3, 20.0)]);
    // A driver without events has none, and is read.
    let mut node = Node::new(&[("0.event_types", "0")]);
    node.look(0.0);
    node.set(&[("0.xid", "1:79")]);
    assert!(after(&mut node, 1.0)[0].xids.is_empty());
}

#[test]
fn a_library_of_another_make_is_no_end() {
    let mut nvml = Nvml::new(Some(&minimal_library_path()));
    for now in 0..3 {
        let why = nvml
            .look(f64::from(now))
            .expect_err("no GPU can be reached");
        assert!(why.contains("nvmlDeviceGetHandleByIndex_v2"), "{why}");
    }
    assert!(!nvml.spent());
}

#[test]
fn what_is_missing_is_told_and_tried_again_later() {
    let folder = tempfile::tempdir().unwrap();
    let mut nvml = Nvml::new(Some(&folder.path().join("libnvidia-ml.so.1")));
    let why = nvml.look(0.0).expect_err("no library");
    assert!(why.contains("cannot open shared object file"), "{why}");
    let mut fake = Fake::install(folder.path()).unwrap();
    assert_eq!(nvml.look(0.9), Err(why), "too early, and the same words");

    let mut set = |key: &str, value: &str| fake.scenario.set(key, value).write().unwrap();
    set("ret.nvmlInit_v2", "9");
    assert_eq!(
        nvml.look(1.0).unwrap_err(),
        "NVML cannot be opened: NVIDIA driver is not loaded"
    );
    set("ret.nvmlInit_v2", "0");
    set("count", "0");
    assert_eq!(nvml.look(3.0).unwrap_err(), "the driver knows no GPU");
    set("count", "1");
    assert_eq!(nvml.look(3.5).expect("the driver is up").len(), 1);
}
