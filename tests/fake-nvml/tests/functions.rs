//! The exported functions called directly, without a loader: what each answers, and how each fails.

#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one call of the library after the other"
)]

mod stage;

use std::{fs, ptr};

use fake_nvml::types::{Handle, MEMORY_V2_VERSION, Memory, MemoryV2, PciInfo, ProcessInfo, code};
use fake_nvml::*;
use stage::{Stage, ask, handle, power};

#[test]
fn a_null_pointer_is_an_invalid_argument() {
    let _stage = Stage::set("null", &[]);
    let gpu = handle(0);
    assert_eq!(nvmlDeviceGetCount_v2(None), code::INVALID_ARGUMENT);
    assert_eq!(nvmlDeviceGetPowerUsage(gpu, None), code::INVALID_ARGUMENT);
    assert_eq!(
        nvmlDeviceGetMemoryInfo_v2(gpu, None),
        code::INVALID_ARGUMENT
    );
    assert_eq!(nvmlEventSetCreate(None), code::INVALID_ARGUMENT);
    assert_eq!(power(Handle::NULL), Err(code::INVALID_ARGUMENT));
    assert_eq!(
        nvmlDeviceGetHandleByIndex_v2(1, None),
        code::INVALID_ARGUMENT
    );
    // SAFETY: null is allowed, and is what this is about.
    let texts = unsafe {
        [
            nvmlDeviceGetName(gpu, ptr::null_mut(), 96),
            nvmlDeviceGetHandleByUUID(ptr::null(), None),
            nvmlDeviceGetComputeRunningProcesses_v3(gpu, None, ptr::null_mut()),
            nvmlDeviceGetFieldValues(gpu, 1, ptr::null_mut()),
        ]
    };
    assert_eq!(texts, [code::INVALID_ARGUMENT; 4]);
}

#[test]
fn nothing_answers_before_init_and_after_the_last_shutdown() {
    let mut stage = Stage::set("init", &[]);
    let count = || ask(|to| nvmlDeviceGetCount_v2(to));
    assert_eq!(nvmlInitWithFlags(0), code::SUCCESS);
    assert_eq!(nvmlShutdown(), code::SUCCESS);
    assert_eq!(count(), Ok(1));
    assert_eq!(nvmlShutdown(), code::SUCCESS);
    assert_eq!(count(), Err(code::UNINITIALIZED));
    assert_eq!(nvmlShutdown(), code::UNINITIALIZED);

    stage.change(&[("ret.nvmlInit_v2", "9")]);
    assert_eq!(nvmlInit_v2(), 9);
    assert_eq!(nvmlInitWithFlags(0), code::SUCCESS);
    stage.change(&[("generation", "1")]);
    assert_eq!(count(), Err(code::UNINITIALIZED), "the driver was reloaded");
    assert_eq!(nvmlInitWithFlags(0), code::SUCCESS);
    assert_eq!(count(), Ok(1));
}

#[test]
fn a_bad_scenario_is_refused_until_it_is_right() {
    let mut stage = Stage::set("bad", &[("0.power_mw", "5")]);
    let gpu = handle(0);
    stage.change(&[("0.power_mw", "lots")]);
    assert_eq!(power(gpu), Err(code::UNKNOWN));
    assert_eq!(nvmlInit_v2(), code::UNKNOWN);
    stage.change(&[("0.power_mw", "6")]);
    assert_eq!(power(gpu), Ok(6));
    fs::remove_file(stage.scenario.path()).unwrap();
    assert_eq!(
        power(gpu),
        Ok(6),
        "a file that is gone has said nothing new"
    );
    use_scenario(stage.scenario.path());
    assert_eq!(nvmlInit_v2(), code::UNKNOWN, "there is none to begin with");
    fs::write(stage.scenario.path(), "").unwrap();
    assert_eq!(
        nvmlInit_v2(),
        code::SUCCESS,
        "the empty file is an idle GPU"
    );
}

#[test]
fn memory_has_two_versions_and_each_its_own_sum() {
    let lines = [
        ("0.memory_total", "1000"),
        ("0.memory_used", "300"),
        ("0.memory_reserved", "50"),
    ];
    let _stage = Stage::set("memory", &lines);
    let gpu = handle(0);
    let mut first = Memory {
        total: 0,
        free: 0,
        used: 0,
    };
    assert_eq!(
        nvmlDeviceGetMemoryInfo(gpu, Some(&mut first)),
        code::SUCCESS
    );
    assert_eq!((first.total, first.free, first.used), (1000, 650, 350));

    let mut second = MemoryV2 {
        version: 2,
        total: 0,
        reserved: 0,
        free: 0,
        used: 0,
    };
    let refused = nvmlDeviceGetMemoryInfo_v2(gpu, Some(&mut second));
    assert_eq!(refused, code::ARGUMENT_VERSION_MISMATCH);
    second.version = MEMORY_V2_VERSION;
    assert_eq!(
        nvmlDeviceGetMemoryInfo_v2(gpu, Some(&mut second)),
        code::SUCCESS
    );
    assert_eq!((second.free, second.used, second.reserved), (650, 300, 50));
}

#[test]
fn a_device_is_found_by_every_name_it_has() {
    let lines = [
        ("count", "2"),
        ("1.uuid", "GPU-b"),
        ("1.serial", "77"),
        ("1.pci", "0:3b:00.0"),
    ];
    let _stage = Stage::set("names", &lines);
    let mut pci = PciInfo {
        bus_id_legacy: [0; 16],
        domain: 9,
        bus: 0,
        device: 9,
        pci_device_id: 0,
        pci_sub_system_id: 0,
        bus_id: [1; 32],
    };
    assert_eq!(
        nvmlDeviceGetPciInfo_v3(handle(1), Some(&mut pci)),
        code::SUCCESS
    );
    let text: String = pci.bus_id.iter().map(|byte| *byte as u8 as char).collect();
    assert_eq!(text.trim_end_matches('\0'), "00000000:3B:00.0");
    assert_eq!((pci.domain, pci.bus, pci.device), (0, 0x3b, 0));

    let mut found = [Handle::NULL; 4];
    let [by_uuid, by_serial, by_long, by_short] = &mut found;
    // SAFETY: all texts are C strings.
    let results = unsafe {
        [
            nvmlDeviceGetHandleByUUID(c"GPU-b".as_ptr(), Some(by_uuid)),
            nvmlDeviceGetHandleBySerial(c"77".as_ptr(), Some(by_serial)),
            nvmlDeviceGetHandleByPciBusId_v2(pci.bus_id.as_ptr(), Some(by_long)),
            nvmlDeviceGetHandleByPciBusId(c"0000:3b:00.0".as_ptr(), Some(by_short)),
        ]
    };
    assert_eq!(results, [code::SUCCESS; 4]);
    assert_eq!(found, [handle(1); 4]);
    // SAFETY: the text is a C string.
    let nobody = unsafe { nvmlDeviceGetHandleByUUID(c"GPU-c".as_ptr(), None) };
    assert_eq!(nobody, code::NOT_FOUND);

    let mut name = [0; 22];
    // SAFETY: `name` has the length that is said.
    let short = unsafe { nvmlDeviceGetName(handle(0), name.as_mut_ptr(), 21) };
    // SAFETY: likewise.
    let enough = unsafe { nvmlDeviceGetName(handle(0), name.as_mut_ptr(), 22) };
    assert_eq!((short, enough), (code::INSUFFICIENT_SIZE, code::SUCCESS));
    assert_eq!(
        (name[20], name[21]),
        (b'3' as _, 0),
        "NVIDIA H100 80GB HBM3"
    );
}

#[test]
fn processes_tell_their_number_first() {
    let mut stage = Stage::set("procs", &[("0.procs", "7:100,8:-:1:0")]);
    let gpu = handle(0);
    let ask = |room: &mut [ProcessInfo]| {
        let mut count = room.len() as u32;
        let to = if room.is_empty() {
            ptr::null_mut()
        } else {
            room.as_mut_ptr()
        };
        // SAFETY: `to` is null, or has room for `count` items.
        let result = unsafe { nvmlDeviceGetComputeRunningProcesses_v3(gpu, Some(&mut count), to) };
        (result, count)
    };
    let blank = ProcessInfo {
        pid: 0,
        used_gpu_memory: 0,
        gpu_instance_id: 0,
        compute_instance_id: 0,
    };
    let mut room = [blank; 7];
    assert_eq!(ask(&mut []), (code::INSUFFICIENT_SIZE, 2));
    assert_eq!(ask(&mut room[..1]), (code::INSUFFICIENT_SIZE, 2));
    assert_eq!(ask(&mut room), (code::SUCCESS, 2));
    assert_eq!(
        (
            room[0].pid,
            room[0].used_gpu_memory,
            room[0].gpu_instance_id
        ),
        (7, 100, u32::MAX)
    );
    assert_eq!(
        (
            room[1].pid,
            room[1].used_gpu_memory,
            room[1].gpu_instance_id
        ),
        (8, u64::MAX, 1)
    );
    stage.change(&[("0.procs", "none")]);
    assert_eq!(ask(&mut []), (code::SUCCESS, 0));
}

#[test]
fn a_forced_code_is_returned_where_it_belongs() {
    let lines = [
        ("count", "3"),
        ("0.ret", "15"),
        ("1.ret.nvmlDeviceGetPowerUsage", "3"),
    ];
    let mut stage = Stage::set("forced", &lines);
    assert_eq!(nvmlDeviceGetHandleByIndex_v2(0, None), code::GPU_IS_LOST);
    stage.change(&[("0.ret.nvmlDeviceGetHandleByIndex_v2", "0")]);
    assert_eq!(
        power(handle(0)),
        Err(code::GPU_IS_LOST),
        "a handle is had, nothing more"
    );
    assert_eq!(power(handle(1)), Err(code::NOT_SUPPORTED));
    assert_eq!(ask(|to| nvmlDeviceGetMinorNumber(handle(1), to)), Ok(1));
    assert_eq!(power(handle(2)), Ok(70_000));
    assert_eq!(ask(|to| nvmlDeviceGetCount_v2(to)), Ok(3));

    let third = handle(2);
    stage.change(&[("count", "2")]);
    assert_eq!(
        power(third),
        Err(code::GPU_IS_LOST),
        "its handle has outlived it"
    );
    stage.change(&[("ret", "18")]);
    assert_eq!(ask(|to| nvmlDeviceGetCount_v2(to)), Err(18));
    assert_eq!(nvmlShutdown(), code::SUCCESS, "cleaning up is spared");
}
