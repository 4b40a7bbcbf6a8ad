//! Calls that ask one device for many things at once: processes, samples, field values.
//! What each does with no room, too little room and nothing to tell differs, as in NVML.

use std::ffi::{c_int, c_uint, c_ulonglong};

use crate::call::exports;
use crate::device::whole_gpu;
use crate::field::Field;
use crate::types::{
    FieldValue, Outcome, ProcessInfo, ProcessInfoV1, ProcessUtilization, Return, Sample, Value,
    code, put_list, value_type,
};
use crate::world::Gpu;

exports! { unsafe device PROCESSES {
    /// Processes with a compute context: those of the scenario.
    nvmlDeviceGetComputeRunningProcesses_v3(count: Option<&mut c_uint>, infos: *mut ProcessInfo) =
        |gpu| {
            // SAFETY: `infos` and `count` are the caller's, passed on unchanged.
            unsafe { all_or_size(&processes(gpu), infos, count) }
        };
    /// The same.
    nvmlDeviceGetComputeRunningProcesses_v2(count: Option<&mut c_uint>, infos: *mut ProcessInfo) =
        |gpu| {
            // SAFETY: `infos` and `count` are the caller's, passed on unchanged.
            unsafe { all_or_size(&processes(gpu), infos, count) }
        };
    /// The same, in the layout without instances.
    nvmlDeviceGetComputeRunningProcesses(count: Option<&mut c_uint>, infos: *mut ProcessInfoV1) =
        |gpu| {
            // SAFETY: `infos` and `count` are the caller's, passed on unchanged.
            unsafe { all_or_size(&processes_v1(gpu), infos, count) }
        };
    /// Processes that draw: none.
    nvmlDeviceGetGraphicsRunningProcesses_v3(count: Option<&mut c_uint>, infos: *mut ProcessInfo) =
        |_| {
            // SAFETY: `infos` and `count` are the caller's, passed on unchanged.
            unsafe { all_or_size(&[], infos, count) }
        };
    /// Processes that draw: none.
    nvmlDeviceGetGraphicsRunningProcesses_v2(count: Option<&mut c_uint>, infos: *mut ProcessInfo) =
        |_| {
            // SAFETY: `infos` and `count` are the caller's, passed on unchanged.
            unsafe { all_or_size(&[], infos, count) }
        };
    /// Processes that draw: none.
    nvmlDeviceGetGraphicsRunningProcesses(count: Option<&mut c_uint>, infos: *mut ProcessInfoV1) =
        |_| {
            // SAFETY: `infos` and `count` are the caller's, passed on unchanged.
            unsafe { all_or_size(&[], infos, count) }
        };
    /// Processes that share the GPU through MPS: none.
    nvmlDeviceGetMPSComputeRunningProcesses_v3(
        count: Option<&mut c_uint>, infos: *mut ProcessInfo
    ) = |_| {
        // SAFETY: `infos` and `count` are the caller's, passed on unchanged.
        unsafe { all_or_size(&[], infos, count) }
    };
    /// Percent per process, later than `last_seen_us`. A GPU that does nothing has no such sample,
    /// which is NOT_FOUND and quite ordinary; a busy one shares its `util` out evenly.
    nvmlDeviceGetProcessUtilization(
        samples: *mut ProcessUtilization, count: Option<&mut c_uint>, last_seen_us: c_ulonglong
    ) = |gpu| {
        whole_gpu(gpu)?;
        let found = process_utilization(gpu, last_seen_us)?;
        if found.is_empty() {
            return Err(code::NOT_FOUND);
        }
        // SAFETY: `samples` and `count` are the caller's, passed on unchanged.
        unsafe { all_or_size(&found, samples, count) }
    };
}}

exports! { unsafe device SAMPLES {
    /// The driver's buffer of power (type 0, mW), GPU (1) or memory utilisation (2, percent), newer
    /// than `last_seen_us`, oldest first. Without room: how many there could be. None newer:
    /// NOT_FOUND. Too little room: the oldest, so that the next call goes on from there.
    nvmlDeviceGetSamples(
        sampling: c_uint, last_seen_us: c_ulonglong, kind: Option<&mut c_uint>,
        count: Option<&mut c_uint>, samples: *mut Sample
    ) = |gpu| {
        let field = match sampling {
            0 => Field::PowerMw,
            1 => Field::Util,
            2 => Field::MemUtil,
            _ => return Err(code::NOT_SUPPORTED),
        };
        if sampling != 0 {
            whole_gpu(gpu)?;
        }
        let (Some(kind), Some(count)) = (kind, count) else {
            return Err(code::INVALID_ARGUMENT);
        };
        *kind = value_type::UNSIGNED_INT;
        if samples.is_null() {
            *count = gpu.get_u32(Field::SampleCount)?;
            return Ok(());
        }
        let newer = gpu.samples(field, last_seen_us).ok_or(code::NOT_SUPPORTED)?;
        if newer.is_empty() {
            return Err(code::NOT_FOUND);
        }
        let sample = |(time_stamp, value)| Sample {
            time_stamp,
            // Written whole: the upper half is zero, whichever half the caller reads.
            sample_value: Value { unsigned_long_long: value },
        };
        let newer: Vec<Sample> = newer.into_iter().map(sample).collect();
        // SAFETY: `samples` has room for `*count` items, as the caller says.
        unsafe { put_list(&newer, samples, count) };
        Ok(())
    };
    /// Many numbers at once, each with a code of its own: energy (83, mJ), average and instant power
    /// (185, 186, mW), links (91); all others are not supported.
    nvmlDeviceGetFieldValues(count: c_int, values: *mut FieldValue) = |gpu| {
        if values.is_null() || count < 1 {
            return Err(code::INVALID_ARGUMENT);
        }
        for nth in 0..count as usize {
            // SAFETY: `values` has `count` items, as the caller says.
            let at = unsafe { values.add(nth) };
            // SAFETY: one of these items, whose field id the caller has written.
            let value = unsafe { &mut *at };
            *value = field_value(gpu, *value);
        }
        Ok(())
    };
}}

fn processes(gpu: &Gpu<'_>) -> Vec<ProcessInfo> {
    let info = |process: &crate::script::Process| ProcessInfo {
        pid: process.pid,
        used_gpu_memory: process.memory,
        gpu_instance_id: process.gpu_instance,
        compute_instance_id: process.compute_instance,
    };
    gpu.device.processes.iter().map(info).collect()
}

fn processes_v1(gpu: &Gpu<'_>) -> Vec<ProcessInfoV1> {
    let all = gpu.device.processes.iter();
    all.map(|one| ProcessInfoV1 {
        pid: one.pid,
        used_gpu_memory: one.memory,
    })
    .collect()
}

fn process_utilization(gpu: &Gpu<'_>, after: u64) -> Result<Vec<ProcessUtilization>, Return> {
    let all = &gpu.device.processes;
    let newest = gpu
        .samples(Field::Util, after)
        .and_then(|samples| samples.last().copied());
    let Some((time_stamp, util)) = newest.filter(|(_, util)| *util > 0) else {
        return Ok(Vec::new());
    };
    let share = |percent: u64| (percent / all.len() as u64) as c_uint;
    let mem_util = gpu.get(Field::MemUtil)?;
    let utilization = |process: &crate::script::Process| ProcessUtilization {
        pid: process.pid,
        time_stamp,
        sm_util: share(util),
        mem_util: share(mem_util),
        enc_util: 0,
        dec_util: 0,
    };
    Ok(all.iter().map(utilization).collect())
}

fn field_value(gpu: &Gpu<'_>, asked: FieldValue) -> FieldValue {
    let found = match asked.field_id {
        83 => Ok((value_type::UNSIGNED_LONG_LONG, gpu.energy_mj())),
        91 => Ok((value_type::UNSIGNED_INT, 0)),
        185 | 186 => gpu
            .get(Field::PowerMw)
            .map(|power| (value_type::UNSIGNED_INT, power)),
        _ => Err(code::NOT_SUPPORTED),
    };
    let (value_type, value) = found.unwrap_or((value_type::UNSIGNED_INT, 0));
    FieldValue {
        timestamp: gpu.now_us as i64,
        latency_usec: 0,
        value_type,
        nvml_return: found.err().unwrap_or(code::SUCCESS),
        value: Value {
            unsigned_long_long: value,
        },
        ..asked
    }
}

/// Answers with a whole list, or says how much room it needs: INSUFFICIENT_SIZE, and the number in
/// `count`. An empty list fits even where there is no room at all.
///
/// # Safety
/// `to` is null or has room for `*count` items.
unsafe fn all_or_size<T: Copy>(items: &[T], to: *mut T, count: Option<&mut c_uint>) -> Outcome {
    let count = count.ok_or(code::INVALID_ARGUMENT)?;
    if items.is_empty() {
        *count = 0;
        return Ok(());
    }
    if to.is_null() && *count > 0 {
        return Err(code::INVALID_ARGUMENT);
    }
    if (*count as usize) < items.len() {
        *count = items.len() as c_uint;
        return Err(code::INSUFFICIENT_SIZE);
    }
    // SAFETY: `to` is not null, since `*count` is not 0, and has room for `*count` items.
    unsafe { put_list(items, to, count) };
    Ok(())
}
