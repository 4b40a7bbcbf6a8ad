//! The exported functions called directly: what depends on time. Samples, energy, hangs, events.

mod stage;

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use fake_nvml::types::{
    EVENT_XID, EventData, FieldValue, Handle, ProcessUtilization, Sample, Utilization, Value, code,
};
use fake_nvml::*;
use stage::{Stage, ask, energy, handle, power};

fn samples(device: Handle, after: u64, room: usize) -> Result<Vec<(u64, u64)>, u32> {
    let empty = Sample {
        time_stamp: 0,
        sample_value: Value {
            unsigned_long_long: 0,
        },
    };
    let mut room = vec![empty; room];
    let (mut kind, mut count) = (0, room.len() as u32);
    let to = room.as_mut_ptr();
    // SAFETY: `to` has room for `count` samples.
    let result =
        unsafe { nvmlDeviceGetSamples(device, 1, after, Some(&mut kind), Some(&mut count), to) };
    if result != code::SUCCESS {
        return Err(result);
    }
    let read = |sample: &Sample| {
        // SAFETY: the library writes all eight bytes of a value.
        (sample.time_stamp, unsafe {
            sample.sample_value.unsigned_long_long
        })
    };
    Ok(room[..count as usize].iter().map(read).collect())
}

#[test]
fn process_utilisation_of_an_idle_gpu_is_not_found() {
    let mut stage = Stage::set("process_util", &[("0.procs", "7:1,8:1"), ("0.util", "0")]);
    let gpu = handle(0);
    let ask = |after| {
        let mut room = [ProcessUtilization {
            pid: 0,
            time_stamp: 0,
            sm_util: 0,
            mem_util: 0,
            enc_util: 0,
            dec_util: 0,
        }; 4];
        let mut count = 4;
        let to = room.as_mut_ptr();
        // SAFETY: `to` has room for `count` items.
        let result = unsafe { nvmlDeviceGetProcessUtilization(gpu, to, Some(&mut count), after) };
        (result, count, room)
    };
    assert_eq!(ask(0).0, code::NOT_FOUND);
    stage.change(&[("0.util", "90"), ("0.sample_ms", "1")]);
    sleep(Duration::from_millis(10));
    let (result, count, found) = ask(0);
    assert_eq!((result, count), (code::SUCCESS, 2));
    assert_eq!(
        found[..2].iter().map(|one| one.sm_util).collect::<Vec<_>>(),
        [45, 45]
    );
    assert_eq!(ask(u64::MAX).0, code::NOT_FOUND);
}

#[test]
fn samples_go_on_from_the_last_one_seen() {
    let wave = "@0 0 @0.5 100 repeat 1.0";
    let _stage = Stage::set(
        "samples",
        &[
            ("epoch", "1000"),
            ("0.util", wave),
            ("0.sample_ms", "10"),
            ("0.sample_count", "500"),
        ],
    );
    let gpu = handle(0);
    let (mut kind, mut count) = (0, 0);
    let none = ptr::null_mut();
    // SAFETY: a null buffer asks for the number.
    let result =
        unsafe { nvmlDeviceGetSamples(gpu, 1, 0, Some(&mut kind), Some(&mut count), none) };
    assert_eq!((result, kind, count), (code::SUCCESS, 1, 500));

    let all = samples(gpu, 0, 500).unwrap();
    assert_eq!(all.len(), 500);
    assert!(all.windows(2).all(|pair| pair[1].0 - pair[0].0 == 10_000));
    assert!(all.iter().all(|(_, percent)| [0, 100].contains(percent)));
    let mean = all.iter().map(|(_, percent)| percent).sum::<u64>() as f64 / 500.0;
    assert_eq!(mean, 50.0, "five whole rounds of the wave");

    let seen = all[300].0;
    let newer = samples(gpu, seen, 20).unwrap();
    assert_eq!(newer.len(), 20);
    assert_eq!(newer[0], all[301]);
    assert_eq!(samples(gpu, u64::MAX / 2, 20), Err(code::NOT_FOUND));
}

#[test]
fn mig_parents_have_no_utilisation() {
    let _stage = Stage::set("mig", &[("0.mig", "1"), ("0.util", "80")]);
    let gpu = handle(0);
    let mut utilization = Utilization { gpu: 0, memory: 0 };
    let rates = nvmlDeviceGetUtilizationRates(gpu, Some(&mut utilization));
    assert_eq!(rates, code::NOT_SUPPORTED);
    assert_eq!(samples(gpu, 0, 500), Err(code::NOT_SUPPORTED));
    assert_eq!(power(gpu), Ok(70_000));
}

#[test]
fn energy_is_the_integral_of_power_and_never_looks_back() {
    let mut stage = Stage::set("energy", &[("0.power_mw", "1000"), ("0.energy_mj", "5000")]);
    let gpu = handle(0);
    let (before, since) = (energy(gpu), Instant::now());
    assert!((5_000..6_000).contains(&before), "{before}");
    sleep(Duration::from_millis(200));
    let (spent, took) = ((energy(gpu) - before) as f64, since.elapsed().as_secs_f64());
    assert!(
        (190.0..=1e3 * took + 2.0).contains(&spent),
        "{spent} mJ in {took} s at 1 W"
    );

    stage.change(&[("0.power_mw", "0")]);
    let still = energy(gpu);
    assert!(still >= before + 190);
    assert_eq!(
        energy(gpu),
        still,
        "no power, no more energy, and none is taken back"
    );
    stage.change(&[("0.energy_mj", "7")]);
    assert_eq!(energy(gpu), 7, "a reloaded driver counts from anew");

    let mut value = FieldValue {
        field_id: 83,
        scope_id: 0,
        timestamp: 0,
        latency_usec: 0,
        value_type: 0,
        nvml_return: 99,
        value: Value {
            unsigned_long_long: 0,
        },
    };
    // SAFETY: one value, as is said.
    let result = unsafe { nvmlDeviceGetFieldValues(gpu, 1, &mut value) };
    assert_eq!(result, code::SUCCESS);
    assert_eq!((value.nvml_return, value.value_type), (code::SUCCESS, 3));
    // SAFETY: the library writes all eight bytes of a value.
    assert_eq!(unsafe { value.value.unsigned_long_long }, 7);
}

#[test]
fn a_hung_call_blocks_nobody_else() {
    let hang = ("0.hang.nvmlDeviceGetPowerUsage", "forever");
    let mut stage = Stage::set("hang", &[("count", "2"), hang]);
    let ended = Arc::new(AtomicBool::new(false));
    let hung = spawn({
        let ended = Arc::clone(&ended);
        move || {
            let result = power(handle(0));
            ended.store(true, Ordering::SeqCst);
            result
        }
    });
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(100) {
        assert_eq!(power(handle(1)), Ok(70_000));
    }
    assert!(since.elapsed() < Duration::from_secs(5));
    assert!(!ended.load(Ordering::SeqCst));
    stage.change(&[("0.hang.nvmlDeviceGetPowerUsage", "1"), ("0.power_mw", "5")]);
    assert_eq!(
        hung.join().unwrap(),
        Ok(5),
        "released, it answers with what is true then"
    );

    stage.change(&[("hang.nvmlDeviceGetCount_v2", "80")]);
    let since = Instant::now();
    assert_eq!(ask(|to| nvmlDeviceGetCount_v2(to)), Ok(2));
    assert!(since.elapsed() >= Duration::from_millis(80));
}

#[test]
fn an_xid_is_delivered_once_to_each_set() {
    let mut stage = Stage::set("events", &[("count", "2"), ("0.xid", "1:13")]);
    let open = || {
        let mut set = EventSet::NULL;
        assert_eq!(nvmlEventSetCreate(Some(&mut set)), code::SUCCESS);
        for index in 0..2 {
            let registered = nvmlDeviceRegisterEvents(handle(index), EVENT_XID, set);
            assert_eq!(registered, code::SUCCESS);
        }
        set
    };
    let wait = |set, timeout_ms| {
        let mut data = EventData {
            device: Handle::NULL,
            event_type: 0,
            event_data: 0,
            gpu_instance_id: 0,
            compute_instance_id: 0,
        };
        match nvmlEventSetWait_v2(set, Some(&mut data), timeout_ms) {
            code::SUCCESS => Ok((data.device, data.event_type, data.event_data)),
            why => Err(why),
        }
    };
    let (first, second) = (open(), open());
    assert_eq!(
        wait(first, 20),
        Err(code::TIMEOUT),
        "what was before is not told"
    );
    stage.change(&[("0.xid", "1:13,2:79,3:79"), ("1.xid", "1:48")]);
    for set in [first, second] {
        assert_eq!(wait(set, 0), Ok((handle(0), EVENT_XID, 79)));
        assert_eq!(
            wait(set, 0),
            Ok((handle(0), EVENT_XID, 79)),
            "the same XID twice is two"
        );
        assert_eq!(wait(set, 0), Ok((handle(1), EVENT_XID, 48)));
        assert_eq!(wait(set, 0), Err(code::TIMEOUT));
    }
    assert_eq!(nvmlEventSetFree(first), code::SUCCESS);
    assert_eq!(nvmlEventSetFree(first), code::INVALID_ARGUMENT);
    assert_eq!(wait(first, 0), Err(code::INVALID_ARGUMENT));
    stage.change(&[("0.event_types", "0")]);
    assert_eq!(
        nvmlDeviceRegisterEvents(handle(0), EVENT_XID, second),
        code::NOT_SUPPORTED
    );
}
