//! The built library loaded by nvml-wrapper, as the exporter loads it: every reading of the metric
//! table, every kind of failure, and the library of another make. Each test has a copy of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, process};

use fake_nvml::{Fake, Scenario, functions, library_path, minimal_library_path};
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{Clock, Sampling, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

/// A folder for one test, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("wrapper")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn load(library: &Path) -> Nvml {
    Nvml::builder()
        .lib_path(library.as_os_str())
        .init()
        .unwrap()
}

/// A library with these lines, loaded.
fn start(name: &str, lines: &[(&str, &str)]) -> (Fake, Nvml) {
    let mut fake = Fake::install(&folder(name)).unwrap();
    change(&mut fake, lines);
    let nvml = load(&fake.library);
    (fake, nvml)
}

fn change(fake: &mut Fake, lines: &[(&str, &str)]) {
    for (key, value) in lines {
        fake.scenario.set(key, value);
    }
    fake.scenario.write().unwrap();
}

#[test]
fn everything_that_the_metrics_need_is_read() {
    let pid = process::id();
    let (_fake, nvml) = start(
        "everything",
        &[
            ("count", "4"),
            ("driver", "570.1"),
            ("3.uuid", "GPU-three"),
            ("3.name", "NVIDIA H200"),
            ("3.pci", "00000000:DB:00.0"),
            ("3.util", "97"),
            ("3.mem_util", "41"),
            ("3.power_mw", "380000"),
            ("3.power_limit_mw", "600000"),
            ("3.energy_mj", "123456"),
            ("3.memory_total", "1000"),
            ("3.memory_used", "300"),
            ("3.memory_reserved", "50"),
            ("3.temperature", "61"),
            ("3.sm_clock_mhz", "1755"),
            ("3.throttle", "sw_power_cap,hw_thermal_slowdown"),
            ("3.procs", &format!("{pid}:250,{}:-", pid + 1)),
        ],
    );
    assert_eq!(nvml.device_count().unwrap(), 4);
    assert_eq!(nvml.sys_driver_version().unwrap(), "570.1");
    assert_eq!(nvml.sys_cuda_driver_version().unwrap(), 12_040);
    assert!(nvml.sys_process_name(pid, 256).unwrap().contains("wrapper"));

    let gpu = nvml.device_by_index(3).unwrap();
    assert_eq!(
        nvml.device_by_uuid("GPU-three").unwrap().index().unwrap(),
        3
    );
    assert_eq!(gpu.uuid().unwrap(), "GPU-three");
    assert_eq!(gpu.name().unwrap(), "NVIDIA H200");
    assert_eq!(gpu.minor_number().unwrap(), 3);
    assert_eq!(gpu.pci_info().unwrap().bus_id, "00000000:DB:00.0");
    let util = gpu.utilization_rates().unwrap();
    assert_eq!((util.gpu, util.memory), (97, 41));
    assert_eq!(gpu.power_usage().unwrap(), 380_000);
    assert_eq!(gpu.enforced_power_limit().unwrap(), 600_000);
    assert_eq!(
        gpu.power_management_limit_constraints().unwrap().max_limit,
        700_000
    );
    assert!((123_456..250_000).contains(&gpu.total_energy_consumption().unwrap()));
    let memory = gpu.memory_info().unwrap();
    assert_eq!(
        (memory.total, memory.used, memory.free, memory.reserved),
        (1000, 300, 650, 50)
    );
    assert_eq!(gpu.temperature(TemperatureSensor::Gpu).unwrap(), 61);
    assert_eq!(gpu.clock_info(Clock::SM).unwrap(), 1755);
    assert_eq!(gpu.max_clock_info(Clock::SM).unwrap(), 1980);
    let throttle = gpu.current_throttle_reasons_strict().unwrap();
    assert_eq!(
        throttle,
        ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_THERMAL_SLOWDOWN
    );
    assert_eq!(gpu.mig_mode().unwrap().current, 0);
    assert!(matches!(gpu.fan_speed(0), Err(NvmlError::NotSupported)));

    let processes = gpu.running_compute_processes().unwrap();
    assert_eq!(gpu.running_compute_processes_count().unwrap(), 2);
    assert_eq!((processes[0].pid, processes[1].pid), (pid, pid + 1));
    assert_eq!(processes[0].used_gpu_memory, UsedGpuMemory::Used(250));
    assert_eq!(processes[1].used_gpu_memory, UsedGpuMemory::Unavailable);
    assert_eq!(processes[0].gpu_instance_id, None);
    assert_eq!(gpu.running_graphics_processes().unwrap().len(), 0);
    assert_eq!(gpu.process_utilization_stats(None).unwrap()[0].sm_util, 48);
    let idle = nvml.device_by_index(0).unwrap();
    assert!(matches!(
        idle.process_utilization_stats(None),
        Err(NvmlError::NotFound)
    ));
}

#[test]
fn a_load_that_one_look_misses_shows_in_the_samples() {
    let wave = "@0 0 @0.5 100 repeat 1.0";
    let (_fake, nvml) = start("wave", &[("epoch", "1000"), ("0.util", wave)]);
    let gpu = nvml.device_by_index(0).unwrap();
    assert!([0, 100].contains(&gpu.utilization_rates().unwrap().gpu));
    let samples = gpu.samples(Sampling::GpuUtilization, None).unwrap();
    let percent = samples.iter().map(|sample| match sample.value {
        SampleValue::U32(percent) => f64::from(percent),
        _ => panic!("utilisation is an unsigned int"),
    });
    assert_eq!(samples.len(), 120);
    assert_eq!(percent.sum::<f64>() / 120.0, 50.0);
    let newest = samples[119].timestamp;
    let nothing = gpu.samples(Sampling::GpuUtilization, newest + 1_000_000);
    assert!(matches!(nothing, Err(NvmlError::NotFound)));
}

#[test]
fn an_xid_arrives_while_one_waits_for_it() {
    let (mut fake, nvml) = start("xid", &[("count", "2")]);
    let gpu = nvml.device_by_index(1).unwrap();
    let events = nvml.create_event_set().unwrap();
    let events = gpu
        .register_events(EventTypes::CRITICAL_XID_ERROR, events)
        .unwrap();
    assert!(matches!(events.wait(20), Err(NvmlError::Timeout)));

    let edit = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        change(&mut fake, &[("1.xid", "1:79")]);
        Instant::now()
    });
    let event = events.wait(10_000).unwrap();
    let delay = Instant::now() - edit.join().unwrap();
    assert!(event.event_type.contains(EventTypes::CRITICAL_XID_ERROR));
    assert!(matches!(event.event_data, Some(XidError::Value(79))));
    assert_eq!(event.device.index().unwrap(), 1);
    assert!(delay < Duration::from_secs(2), "{delay:?}");
    assert!(
        matches!(events.wait(20), Err(NvmlError::Timeout)),
        "one event, told once"
    );
}

#[test]
fn each_code_becomes_its_error() {
    let power = |gpu: &Device<'_>| gpu.power_usage();
    let (mut fake, nvml) = start("codes", &[("count", "2")]);
    let gpu = nvml.device_by_index(0).unwrap();
    let mut forced = |code: &str| {
        change(&mut fake, &[("0.ret.nvmlDeviceGetPowerUsage", code)]);
        power(&gpu).unwrap_err()
    };
    assert!(matches!(forced("3"), NvmlError::NotSupported));
    assert!(matches!(forced("6"), NvmlError::NotFound));
    assert!(matches!(forced("13"), NvmlError::FunctionNotFound));
    assert!(matches!(forced("999"), NvmlError::Unknown));
    assert!(matches!(forced("28"), NvmlError::UnexpectedVariant(28)));
    assert_eq!(
        gpu.temperature(TemperatureSensor::Gpu).unwrap(),
        35,
        "other calls go on"
    );
    assert_eq!(
        power(&nvml.device_by_index(1).unwrap()).unwrap(),
        70_000,
        "other devices too"
    );
}

#[test]
fn a_lost_gpu_leaves_the_others_readable() {
    let (mut fake, nvml) = start("lost", &[("count", "3")]);
    let lost = nvml.device_by_index(1).unwrap();
    change(&mut fake, &[("1.ret", "15")]);
    assert_eq!(nvml.device_count().unwrap(), 3);
    assert!(matches!(lost.uuid(), Err(NvmlError::GpuLost)));
    assert!(matches!(nvml.device_by_index(1), Err(NvmlError::GpuLost)));
    for index in [0, 2] {
        assert_eq!(
            nvml.device_by_index(index).unwrap().power_usage().unwrap(),
            70_000
        );
    }
}

#[test]
fn no_driver_and_a_bad_scenario_fail_at_init() {
    let mut fake = Fake::install(&folder("init")).unwrap();
    let init = |fake: &Fake| {
        Nvml::builder()
            .lib_path(fake.library.as_os_str())
            .init()
            .err()
    };
    change(&mut fake, &[("ret.nvmlInit_v2", "9")]);
    assert!(matches!(init(&fake), Some(NvmlError::DriverNotLoaded)));
    change(&mut fake, &[("ret.nvmlInit_v2", "0"), ("0.utli", "97")]);
    assert!(matches!(init(&fake), Some(NvmlError::Unknown)));
    fake.scenario.remove("0.utli").write().unwrap();
    assert!(init(&fake).is_none());
}

/// Runs this test once more in a child, whose environment is set before any thread begins.
#[test]
fn the_environment_names_the_scenario_and_the_log() {
    if env::var_os("FAKE_NVML").is_some() {
        let nvml = load(&library_path());
        let gpu = nvml.device_by_index(0).unwrap();
        assert_eq!(gpu.power_usage().unwrap(), 5_000);
        return;
    }
    let folder = folder("environment");
    let mut scenario = Scenario::new(folder.join("node.txt"));
    scenario.set("0.power_mw", 5_000).write().unwrap();
    let status = Command::new(env::current_exe().unwrap())
        .args(["--exact", "the_environment_names_the_scenario_and_the_log"])
        .env("FAKE_NVML", scenario.path())
        .env("FAKE_NVML_LOG", folder.join("calls"))
        .status();
    assert!(status.unwrap().success());
    let calls = fs::read_to_string(folder.join("calls")).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(calls.first(), Some(&"nvmlInit_v2 - 0"));
    assert!(calls.contains(&"nvmlDeviceGetPowerUsage 0 0"));
    assert_eq!(calls.last(), Some(&"nvmlShutdown - 0"));
}

#[test]
fn in_the_minimal_library_each_absent_function_fails_by_itself() {
    let nvml = load(&minimal_library_path());
    assert_eq!(nvml.device_count().unwrap(), 1);
    let absent = |error: NvmlError, function: &str| match error {
        NvmlError::FailedToLoadSymbol(text) => assert!(text.contains(function), "{text}"),
        other => panic!("{other:?}"),
    };
    absent(
        nvml.device_by_index(0).unwrap_err(),
        "nvmlDeviceGetHandleByIndex_v2",
    );
    absent(
        nvml.sys_driver_version().unwrap_err(),
        "nvmlSystemGetDriverVersion",
    );
    absent(nvml.create_event_set().err().unwrap(), "nvmlEventSetCreate");
}

#[test]
fn what_a_scenario_can_name_is_exported() {
    let library = fs::read(library_path()).unwrap();
    for name in functions() {
        let symbol = format!("\0{name}\0").into_bytes();
        let there = library.windows(symbol.len()).any(|bytes| bytes == symbol);
        assert!(there, "{name}");
    }
    assert!(functions().count() > 80);
}
