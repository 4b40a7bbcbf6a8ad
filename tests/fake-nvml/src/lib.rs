//! A real `libnvidia-ml.so.1` for tests. Its GPUs are the lines of a text file, which may change
//! while programs run; its errors and hangs are lines too. It opens no device and no driver.
//!
//! Built as a C library it serves whatever loads NVML; built as a Rust library it offers tests
//! [`library_path`], [`Fake`] and [`Scenario`], and the functions themselves to call directly.
//!
//! # The scenario file
//!
//! `$FAKE_NVML` names it; without that, it lies beside the library: the library's path, then
//! `.scenario`. One `KEY VALUE` a line; lines that begin with `#` and empty ones are skipped; what is
//! not said has a default, so the empty file is one idle H100. The file is looked at before each call.
//! Replace it by rename. A line that is wrong is told once on stderr (`fake-nvml: FILE:LINE: ...`),
//! and each call then returns NVML_ERROR_UNKNOWN until the file is right again.
//!
//! | key | value |
//! |---|---|
//! | `count` | devices, 0 to 64; default 1 |
//! | `driver`, `nvml`, `cuda` | versions: `550.54.15`, `12.550.54.15`, `12040` |
//! | `epoch` | second 0, in seconds since 1970; default: when the file was first read. With it, energy and steps go on over a restart of the program |
//! | `generation` | another number is a reloaded driver: UNINITIALIZED until the next init |
//! | `ret CODE`, `ret.FUNCTION CODE` | every call, or one function's, returns this; 0 exempts a function from a wider `ret`, which spares nvmlShutdown and nvmlEventSetFree anyway |
//! | `hang TIME`, `hang.FUNCTION TIME` | every call, or one function's, first blocks: milliseconds, or `forever`, which ends when the scenario no longer says so |
//! | `N.ret`, `N.ret.FUNCTION`, `N.hang`, `N.hang.FUNCTION` | the same for device N; they come before those of the library |
//! | `N.uuid`, `N.name`, `N.serial`, `N.pci` | who it is; `N.pci 00000000:18:00.0` |
//! | `N.energy_mj` | energy at second 0, mJ; the integral of `power_mw` comes on top. A changed number sets the counter to it |
//! | `N.procs` | `none`, or `PID:BYTES,...`; `PID:-` is memory unknown, `PID:BYTES:GI:CI` a MIG instance |
//! | `N.xid` | `SEQUENCE:XID,...`; a sequence number above all earlier ones is one event |
//! | `N.util`, `N.mem_util`, `N.fan_percent` | percent |
//! | `N.power_mw`, `N.power_limit_mw`, `N.power_min_mw`, `N.power_max_mw` | mW |
//! | `N.memory_total`, `N.memory_used`, `N.memory_reserved` | bytes |
//! | `N.temperature` | degrees Celsius |
//! | `N.sm_clock_mhz`, `N.max_sm_clock_mhz`, `N.mem_clock_mhz` | MHz |
//! | `N.throttle` | `none`, or names joined by commas: `gpu_idle applications_clocks_setting sw_power_cap hw_slowdown sync_boost sw_thermal_slowdown hw_thermal_slowdown hw_power_brake_slowdown display_clock_setting` |
//! | `N.mig`, `N.persistence`, `N.ecc` | 0 or 1; with `mig 1` utilisation is not supported |
//! | `N.pstate`, `N.compute_mode`, `N.event_types` | as NVML numbers them |
//! | `N.ecc_corrected`, `N.ecc_uncorrected` | errors |
//! | `N.pcie_rx_kbs`, `N.pcie_tx_kbs` | kB/s |
//! | `N.sample_ms`, `N.sample_count` | the driver's sample buffer: period and length; 100 and 120 |
//!
//! From `N.util` on, a value may vary: `@0 97 @30 0 @60 97` are steps at seconds since second 0, and
//! `@0 0 @0.5 100 repeat 1.0` is a wave. Utilisation calls give the step in force, samples the mean of
//! their period, energy the integral; an edit of the file changes none of these for the time before it.
//!
//! `$FAKE_NVML_LOG` names a file that gains `FUNCTION DEVICE RETURN` for each call: `-` for no device,
//! `hangs` for the return when a call begins to hang.

#![allow(non_snake_case, reason = "NVML names its functions")]
#![warn(missing_docs)]

mod call;
mod device;
mod events;
mod field;
mod install;
mod lists;
mod profile;
mod script;
mod system;
pub mod types;
mod world;

use std::path::Path;

pub use device::*;
pub use events::*;
pub use install::{Fake, Scenario, library_path, minimal_library_path};
pub use lists::*;
pub use system::*;

/// Makes the functions of this very program, not those of a loaded library, read that file: for
/// tests that call them directly. As if nothing had been called before.
pub fn use_scenario(path: &Path) {
    world::use_scenario(path);
}

/// The names of all functions that a scenario can name.
pub fn functions() -> impl Iterator<Item = &'static str> {
    let lists = [
        system::BEFORE_INIT,
        system::COUNTS,
        system::VERSIONS,
        system::TEXTS,
        system::LOOKUPS,
        device::TEXTS,
        device::IDENTITY,
        device::POWER,
        device::WORK,
        device::MEMORY,
        device::HEAT_AND_CLOCKS,
        device::MODES,
        lists::PROCESSES,
        lists::SAMPLES,
        events::REGISTRATION,
        events::SETS_CALLS,
    ];
    lists.into_iter().flatten().copied()
}
