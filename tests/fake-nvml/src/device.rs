//! Calls that ask one device for one thing: who it is, and its numbers now.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

use crate::call::exports;
use crate::field::{Field, THROTTLE_REASONS};
use crate::script::PciAddress;
use crate::types::{
    Bar1Memory, Handle, MEMORY_V2_VERSION, Memory, MemoryV2, Outcome, PciInfo, PciInfoV2, Return,
    TEMPERATURE_V1_VERSION, TemperatureV1, Utilization, ViolationTime, chars, code, put, put_text,
};
use crate::world::Gpu;

/// PCI device and vendor of an H100 SXM5, and of its board.
const PCI_IDS: (c_uint, c_uint) = (0x2330_10DE, 0x16C1_10DE);
/// Size of BAR1, bytes.
const BAR1: c_ulonglong = 128 << 30;
/// `NVML_TEMPERATURE_THRESHOLD_*` in order: shutdown, slowdown, memory and GPU maximum; Celsius.
const THRESHOLDS: [c_uint; 4] = [92, 89, 95, 87];

exports! { unsafe device TEXTS {
    /// The name that does not change when indices do.
    nvmlDeviceGetUUID(uuid: *mut c_char, length: c_uint) = |gpu| {
        // SAFETY: `uuid` and `length` are the caller's, passed on unchanged.
        unsafe { put_text(&gpu.device.uuid, uuid, length) }
    };
    /// Model.
    nvmlDeviceGetName(name: *mut c_char, length: c_uint) = |gpu| {
        // SAFETY: `name` and `length` are the caller's, passed on unchanged.
        unsafe { put_text(&gpu.device.name, name, length) }
    };
    /// Serial number of the board.
    nvmlDeviceGetSerial(serial: *mut c_char, length: c_uint) = |gpu| {
        // SAFETY: `serial` and `length` are the caller's, passed on unchanged.
        unsafe { put_text(&gpu.device.serial, serial, length) }
    };
    /// Version of the video BIOS; the same for all.
    nvmlDeviceGetVbiosVersion(version: *mut c_char, length: c_uint) = |_| {
        // SAFETY: `version` and `length` are the caller's, passed on unchanged.
        unsafe { put_text("96.00.74.00.01", version, length) }
    };
}}

exports! { device IDENTITY {
    /// Place in the enumeration.
    nvmlDeviceGetIndex(index: Option<&mut c_uint>) = |gpu| put(index, gpu.index as c_uint);
    /// N of /dev/nvidiaN.
    nvmlDeviceGetMinorNumber(minor: Option<&mut c_uint>) = |gpu| put(minor, gpu.index as c_uint);
    /// `NVML_BRAND_NVIDIA`.
    nvmlDeviceGetBrand(brand: Option<&mut c_uint>) = |_| put(brand, 14);
    /// `NVML_DEVICE_ARCH_HOPPER`.
    nvmlDeviceGetArchitecture(architecture: Option<&mut c_uint>) = |_| put(architecture, 9);
    /// 9.0, Hopper's.
    nvmlDeviceGetCudaComputeCapability(major: Option<&mut c_int>, minor: Option<&mut c_int>) =
        |_| put(major, 9).and_then(|()| put(minor, 0));
    /// CUDA cores of an H100 SXM5.
    nvmlDeviceGetNumGpuCores(cores: Option<&mut c_uint>) = |_| put(cores, 16_896);
    /// Bits.
    nvmlDeviceGetMemoryBusWidth(width: Option<&mut c_uint>) = |_| put(width, 5_120);
    /// Each board has one GPU.
    nvmlDeviceGetMultiGpuBoard(several: Option<&mut c_uint>) = |_| put(several, 0);
    /// Any number that differs between boards.
    nvmlDeviceGetBoardId(board: Option<&mut c_uint>) = |gpu| put(board, gpu.device.pci.bus << 8);
    /// PCI address and ids.
    nvmlDeviceGetPciInfo_v3(pci: Option<&mut PciInfo>) = |gpu| {
        let PciAddress { domain, bus, device } = gpu.device.pci;
        put(pci, PciInfo {
            bus_id_legacy: chars(&format!("{domain:04X}:{bus:02X}:{device:02X}.0")),
            domain,
            bus,
            device,
            pci_device_id: PCI_IDS.0,
            pci_sub_system_id: PCI_IDS.1,
            bus_id: chars(&format!("{domain:08X}:{bus:02X}:{device:02X}.0")),
        })
    };
    /// The same, in the older layout.
    nvmlDeviceGetPciInfo_v2(pci: Option<&mut PciInfoV2>) = |gpu| put(pci, pci_info_v2(gpu));
    /// The same, in the older layout.
    nvmlDeviceGetPciInfo(pci: Option<&mut PciInfoV2>) = |gpu| put(pci, pci_info_v2(gpu));
}}

exports! { device POWER {
    /// Board power now, mW.
    nvmlDeviceGetPowerUsage(power: Option<&mut c_uint>) =
        |gpu| put(power, gpu.get_u32(Field::PowerMw)?);
    /// Limit in force, mW.
    nvmlDeviceGetEnforcedPowerLimit(limit: Option<&mut c_uint>) =
        |gpu| put(limit, gpu.get_u32(Field::PowerLimitMw)?);
    /// Limit that was set, mW; here always the one in force.
    nvmlDeviceGetPowerManagementLimit(limit: Option<&mut c_uint>) =
        |gpu| put(limit, gpu.get_u32(Field::PowerLimitMw)?);
    /// Limit after a reset, mW.
    nvmlDeviceGetPowerManagementDefaultLimit(limit: Option<&mut c_uint>) =
        |gpu| put(limit, gpu.get_u32(Field::PowerMaxMw)?);
    /// Limits that may be set, mW.
    nvmlDeviceGetPowerManagementLimitConstraints(
        min: Option<&mut c_uint>, max: Option<&mut c_uint>
    ) = |gpu| {
        put(min, gpu.get_u32(Field::PowerMinMw)?)?;
        put(max, gpu.get_u32(Field::PowerMaxMw)?)
    };
    /// Power management is on.
    nvmlDeviceGetPowerManagementMode(mode: Option<&mut c_uint>) = |_| put(mode, 1);
    /// Energy since the driver was loaded, mJ.
    nvmlDeviceGetTotalEnergyConsumption(energy: Option<&mut c_ulonglong>) =
        |gpu| put(energy, gpu.energy_mj());
    /// Time below the wanted clocks; none.
    nvmlDeviceGetViolationStatus(_policy: c_uint, time: Option<&mut ViolationTime>) =
        |gpu| put(time, ViolationTime { reference_time: gpu.now_us, violation_time: 0 });
}}

exports! { device WORK {
    /// Percent, as the step of `util` in force says; a MIG parent has none.
    nvmlDeviceGetUtilizationRates(utilization: Option<&mut Utilization>) = |gpu| {
        whole_gpu(gpu)?;
        let (gpu, memory) = (gpu.get_u32(Field::Util)?, gpu.get_u32(Field::MemUtil)?);
        put(utilization, Utilization { gpu, memory })
    };
    /// Percent, and the sampling period in microseconds; no encoder ever works.
    nvmlDeviceGetEncoderUtilization(percent: Option<&mut c_uint>, period: Option<&mut c_uint>) =
        |gpu| whole_gpu(gpu).and_then(|()| put(percent, 0)).and_then(|()| put(period, 167_000));
    /// The same for decoders.
    nvmlDeviceGetDecoderUtilization(percent: Option<&mut c_uint>, period: Option<&mut c_uint>) =
        |gpu| whole_gpu(gpu).and_then(|()| put(percent, 0)).and_then(|()| put(period, 167_000));
    /// kB/s; counter 0 is sent, 1 is received.
    nvmlDeviceGetPcieThroughput(counter: c_uint, value: Option<&mut c_uint>) = |gpu| {
        let field = match counter {
            0 => Field::PcieTx,
            1 => Field::PcieRx,
            _ => return Err(code::INVALID_ARGUMENT),
        };
        put(value, gpu.get_u32(field)?)
    };
    /// Generation 5, as everything that sits in a DGX of that age.
    nvmlDeviceGetCurrPcieLinkGeneration(generation: Option<&mut c_uint>) = |_| put(generation, 5);
    /// The same.
    nvmlDeviceGetMaxPcieLinkGeneration(generation: Option<&mut c_uint>) = |_| put(generation, 5);
    /// Lanes.
    nvmlDeviceGetCurrPcieLinkWidth(width: Option<&mut c_uint>) = |_| put(width, 16);
    /// Lanes.
    nvmlDeviceGetMaxPcieLinkWidth(width: Option<&mut c_uint>) = |_| put(width, 16);
}}

exports! { device MEMORY {
    /// Bytes; what the driver reserves counts as used.
    nvmlDeviceGetMemoryInfo(memory: Option<&mut Memory>) = |gpu| {
        let MemoryV2 { total, reserved, free, used, .. } = memory_v2(gpu)?;
        put(memory, Memory { total, free, used: used + reserved })
    };
    /// Bytes; the caller says which version of the struct it has.
    nvmlDeviceGetMemoryInfo_v2(memory: Option<&mut MemoryV2>) = |gpu| {
        let memory = memory.ok_or(code::INVALID_ARGUMENT)?;
        if memory.version != MEMORY_V2_VERSION {
            return Err(code::ARGUMENT_VERSION_MISMATCH);
        }
        *memory = memory_v2(gpu)?;
        Ok(())
    };
    /// Bytes of the window through which the CPU sees the memory.
    nvmlDeviceGetBAR1MemoryInfo(memory: Option<&mut Bar1Memory>) =
        |_| put(memory, Bar1Memory { total: BAR1, free: BAR1 - (1 << 20), used: 1 << 20 });
    /// ECC, now and after a reset.
    nvmlDeviceGetEccMode(current: Option<&mut c_uint>, pending: Option<&mut c_uint>) =
        |gpu| twice(current, pending, gpu, Field::Ecc);
    /// Errors of a kind: 0 corrected, 1 uncorrected; since reset or ever is the same here.
    nvmlDeviceGetTotalEccErrors(
        kind: c_uint, _counter: c_uint, count: Option<&mut c_ulonglong>
    ) = |gpu| put(count, ecc_errors(gpu, kind)?);
    /// The same, and all of it in device memory (location 2).
    nvmlDeviceGetMemoryErrorCounter(
        kind: c_uint, _counter: c_uint, location: c_uint, count: Option<&mut c_ulonglong>
    ) = |gpu| put(count, if location == 2 { ecc_errors(gpu, kind)? } else { 0 });
    /// Rows that were replaced by spare ones: none.
    nvmlDeviceGetRemappedRows(
        corrected: Option<&mut c_uint>, uncorrected: Option<&mut c_uint>,
        pending: Option<&mut c_uint>, failed: Option<&mut c_uint>
    ) = |_| [corrected, uncorrected, pending, failed].into_iter().try_for_each(|to| put(to, 0));
}}

exports! { device HEAT_AND_CLOCKS {
    /// Degrees Celsius of sensor 0, the GPU.
    nvmlDeviceGetTemperature(sensor: c_uint, temperature: Option<&mut c_uint>) = |gpu| {
        if sensor != 0 {
            return Err(code::INVALID_ARGUMENT);
        }
        put(temperature, gpu.get_u32(Field::Temperature)?)
    };
    /// The same in a struct with a version.
    nvmlDeviceGetTemperatureV(temperature: Option<&mut TemperatureV1>) = |gpu| {
        let to = temperature.ok_or(code::INVALID_ARGUMENT)?;
        if to.version != TEMPERATURE_V1_VERSION {
            return Err(code::ARGUMENT_VERSION_MISMATCH);
        }
        if to.sensor_type != 0 {
            return Err(code::INVALID_ARGUMENT);
        }
        to.temperature = gpu.get_u32(Field::Temperature)? as c_int;
        Ok(())
    };
    /// Degrees Celsius at which something happens.
    nvmlDeviceGetTemperatureThreshold(which: c_uint, temperature: Option<&mut c_uint>) =
        |_| put(temperature, *THRESHOLDS.get(which as usize).ok_or(code::NOT_SUPPORTED)?);
    /// Percent.
    nvmlDeviceGetFanSpeed(percent: Option<&mut c_uint>) =
        |gpu| put(percent, gpu.get_u32(Field::FanPercent)?);
    /// Percent; all fans of a board turn alike.
    nvmlDeviceGetFanSpeed_v2(_fan: c_uint, percent: Option<&mut c_uint>) =
        |gpu| put(percent, gpu.get_u32(Field::FanPercent)?);
    /// One where the scenario gives a speed.
    nvmlDeviceGetNumFans(fans: Option<&mut c_uint>) =
        |gpu| put(fans, gpu.get(Field::FanPercent).is_ok().into());
    /// MHz; 2 is memory, and 0, 1, 3 follow the SMs.
    nvmlDeviceGetClockInfo(kind: c_uint, mhz: Option<&mut c_uint>) =
        |gpu| put(mhz, clock(gpu, kind, Field::SmClockMhz)?);
    /// MHz now (id 0) or at most (1 to 3).
    nvmlDeviceGetClock(kind: c_uint, id: c_uint, mhz: Option<&mut c_uint>) = |gpu| {
        let sm = if id == 0 { Field::SmClockMhz } else { Field::MaxSmClockMhz };
        put(mhz, clock(gpu, kind, sm)?)
    };
    /// MHz at most.
    nvmlDeviceGetMaxClockInfo(kind: c_uint, mhz: Option<&mut c_uint>) =
        |gpu| put(mhz, clock(gpu, kind, Field::MaxSmClockMhz)?);
    /// 0 is the fastest.
    nvmlDeviceGetPerformanceState(state: Option<&mut c_uint>) =
        |gpu| put(state, gpu.get_u32(Field::Pstate)?);
    /// The same under its old name.
    nvmlDeviceGetPowerState(state: Option<&mut c_uint>) =
        |gpu| put(state, gpu.get_u32(Field::Pstate)?);
    /// Why clocks are held down: a mask.
    nvmlDeviceGetCurrentClocksThrottleReasons(reasons: Option<&mut c_ulonglong>) =
        |gpu| put(reasons, gpu.get(Field::Throttle)?);
    /// The same under its name since driver 535.
    nvmlDeviceGetCurrentClocksEventReasons(reasons: Option<&mut c_ulonglong>) =
        |gpu| put(reasons, gpu.get(Field::Throttle)?);
    /// The reasons that this device can have: all.
    nvmlDeviceGetSupportedClocksThrottleReasons(reasons: Option<&mut c_ulonglong>) =
        |_| put(reasons, all_reasons());
    /// The same under its name since driver 535.
    nvmlDeviceGetSupportedClocksEventReasons(reasons: Option<&mut c_ulonglong>) =
        |_| put(reasons, all_reasons());
}}

exports! { device MODES {
    /// MIG, now and after a reset.
    nvmlDeviceGetMigMode(current: Option<&mut c_uint>, pending: Option<&mut c_uint>) =
        |gpu| twice(current, pending, gpu, Field::Mig);
    /// Instances that could be made.
    nvmlDeviceGetMaxMigDeviceCount(count: Option<&mut c_uint>) =
        |gpu| put(count, 7 * gpu.get_u32(Field::Mig)?);
    /// Instances have no handles here: a MIG parent with nothing in it that may be asked.
    nvmlDeviceGetMigDeviceHandleByIndex(_index: c_uint, _mig: Option<&mut Handle>) =
        |_| Err(code::NOT_FOUND);
    /// Every handle is a whole GPU.
    nvmlDeviceIsMigDeviceHandle(is_mig: Option<&mut c_uint>) = |_| put(is_mig, 0);
    /// Every handle is a whole GPU, so this is the wrong question.
    nvmlDeviceGetDeviceHandleFromMigDeviceHandle(_parent: Option<&mut Handle>) =
        |_| Err(code::INVALID_ARGUMENT);
    /// Whether the driver stays loaded without users.
    nvmlDeviceGetPersistenceMode(mode: Option<&mut c_uint>) =
        |gpu| put(mode, gpu.get_u32(Field::Persistence)?);
    /// Who may use the device.
    nvmlDeviceGetComputeMode(mode: Option<&mut c_uint>) =
        |gpu| put(mode, gpu.get_u32(Field::ComputeMode)?);
    /// No display is attached.
    nvmlDeviceGetDisplayMode(mode: Option<&mut c_uint>) = |_| put(mode, 0);
    /// No display is initialised.
    nvmlDeviceGetDisplayActive(active: Option<&mut c_uint>) = |_| put(active, 0);
    /// Driver models are a matter of Windows.
    nvmlDeviceGetDriverModel(_current: Option<&mut c_uint>, _pending: Option<&mut c_uint>) =
        |_| Err(code::NOT_SUPPORTED);
    /// Driver models are a matter of Windows.
    nvmlDeviceGetDriverModel_v2(_current: Option<&mut c_uint>, _pending: Option<&mut c_uint>) =
        |_| Err(code::NOT_SUPPORTED);
}}

/// MIG parents answer no question about utilisation.
pub(crate) fn whole_gpu(gpu: &Gpu<'_>) -> Outcome {
    match gpu.get(Field::Mig)? {
        0 => Ok(()),
        _ => Err(code::NOT_SUPPORTED),
    }
}

fn twice(
    current: Option<&mut c_uint>,
    pending: Option<&mut c_uint>,
    gpu: &Gpu<'_>,
    field: Field,
) -> Outcome {
    let value = gpu.get_u32(field)?;
    put(current, value)?;
    put(pending, value)
}

fn memory_v2(gpu: &Gpu<'_>) -> Result<MemoryV2, Return> {
    let total = gpu.get(Field::MemoryTotal)?;
    let (used, reserved) = (gpu.get(Field::MemoryUsed)?, gpu.get(Field::MemoryReserved)?);
    let free = total.saturating_sub(used).saturating_sub(reserved);
    Ok(MemoryV2 {
        version: MEMORY_V2_VERSION,
        total,
        reserved,
        free,
        used,
    })
}

fn pci_info_v2(gpu: &Gpu<'_>) -> PciInfoV2 {
    let PciAddress {
        domain,
        bus,
        device,
    } = gpu.device.pci;
    PciInfoV2 {
        bus_id: chars(&format!("{domain:04X}:{bus:02X}:{device:02X}.0")),
        domain,
        bus,
        device,
        pci_device_id: PCI_IDS.0,
        pci_sub_system_id: PCI_IDS.1,
        reserved: [0; 4],
    }
}

fn ecc_errors(gpu: &Gpu<'_>, kind: c_uint) -> Result<c_ulonglong, Return> {
    match kind {
        _ if gpu.get(Field::Ecc)? == 0 => Err(code::NOT_SUPPORTED),
        0 => gpu.get(Field::EccCorrected),
        1 => gpu.get(Field::EccUncorrected),
        _ => Err(code::INVALID_ARGUMENT),
    }
}

fn clock(gpu: &Gpu<'_>, kind: c_uint, sm: Field) -> Result<c_uint, Return> {
    match kind {
        0 | 1 | 3 => gpu.get_u32(sm),
        2 => gpu.get_u32(Field::MemClockMhz),
        _ => Err(code::INVALID_ARGUMENT),
    }
}

fn all_reasons() -> c_ulonglong {
    THROTTLE_REASONS.iter().map(|(_, bit)| bit).sum()
}
