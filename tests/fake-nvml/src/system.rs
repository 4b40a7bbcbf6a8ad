//! Calls about the library itself: begin and end, versions, how many devices, and how to reach one.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::fs;

use crate::call::{exports, lookup};
use crate::script::{Device, PciAddress};
use crate::types::{Handle, Return, code, put, put_text};
use crate::world::{self, World};

exports! { before_init BEFORE_INIT {
    /// Begins; counted, each init wants its shutdown.
    nvmlInit_v2() = |world| { world::init(world); Ok(()) };
    /// Begins, as in the first version of the interface.
    nvmlInit() = |world| { world::init(world); Ok(()) };
    /// Begins; the flags (no GPUs, no attach) change nothing here.
    nvmlInitWithFlags(_flags: c_uint) = |world| { world::init(world); Ok(()) };
    /// Ends one init.
    nvmlShutdown() = |_| world::shutdown();
}}

exports! { library COUNTS {
    /// Devices now; those that are lost count too.
    nvmlDeviceGetCount_v2(count: Option<&mut c_uint>) =
        |world| put(count, world.script.devices.len() as c_uint);
    /// The same.
    nvmlDeviceGetCount(count: Option<&mut c_uint>) =
        |world| put(count, world.script.devices.len() as c_uint);
    /// Units are a matter of the S-class systems of old: none.
    nvmlUnitGetCount(count: Option<&mut c_uint>) = |_| put(count, 0);
}}

exports! { before_init VERSIONS {
    /// CUDA version of the driver: 1000 x major + 10 x minor.
    nvmlSystemGetCudaDriverVersion(version: Option<&mut c_int>) =
        |world| put(version, world.script.cuda as c_int);
    /// The same.
    nvmlSystemGetCudaDriverVersion_v2(version: Option<&mut c_int>) =
        |world| put(version, world.script.cuda as c_int);
}}

exports! { unsafe library TEXTS {
    /// Version of the driver, as `driver` in the scenario.
    nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) = |world| {
        // SAFETY: `version` and `length` are the caller's, passed on unchanged.
        unsafe { put_text(&world.script.driver, version, length) }
    };
    /// Version of this library, as `nvml` in the scenario.
    nvmlSystemGetNVMLVersion(version: *mut c_char, length: c_uint) = |world| {
        // SAFETY: `version` and `length` are the caller's, passed on unchanged.
        unsafe { put_text(&world.script.nvml, version, length) }
    };
    /// What a process was started as, from /proc, cut to the caller's length.
    nvmlSystemGetProcessName(pid: c_uint, name: *mut c_char, length: c_uint) = |_| {
        let argv = fs::read(format!("/proc/{pid}/cmdline")).map_err(|_| code::NOT_FOUND)?;
        let program = argv.split(|byte| *byte == 0).next().unwrap_or_default();
        let mut program = String::from_utf8_lossy(program).into_owned();
        while program.len() >= length as usize && program.pop().is_some() {}
        // SAFETY: `name` and `length` are the caller's, passed on unchanged.
        unsafe { put_text(&program, name, length) }
    };
}}

/// The functions of this file that [`exports!`] does not list.
pub(crate) const LOOKUPS: &[&str] = &[
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetHandleBySerial",
    "nvmlDeviceGetHandleByPciBusId",
    "nvmlDeviceGetHandleByPciBusId_v2",
];

fn by_index(world: &World, index: c_uint) -> Result<usize, Return> {
    let index = index as usize;
    (index < world.script.devices.len())
        .then_some(index)
        .ok_or(code::INVALID_ARGUMENT)
}

/// # Safety
/// `text` is null or a C string.
unsafe fn by_text(
    world: &World,
    text: *const c_char,
    is: impl Fn(&Device, &str) -> bool,
) -> Result<usize, Return> {
    if text.is_null() {
        return Err(code::INVALID_ARGUMENT);
    }
    // SAFETY: not null, so a C string by this function's contract.
    let text = unsafe { CStr::from_ptr(text) }
        .to_str()
        .map_err(|_| code::INVALID_ARGUMENT)?;
    world
        .script
        .devices
        .iter()
        .position(|device| is(device, text))
        .ok_or(code::NOT_FOUND)
}

/// The device of that index.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(
    index: c_uint,
    device: Option<&mut Handle>,
) -> Return {
    lookup("nvmlDeviceGetHandleByIndex_v2", device, |world| {
        by_index(world, index)
    })
}

/// The same; the first version left out devices that the caller may not use, and here all may be.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex(index: c_uint, device: Option<&mut Handle>) -> Return {
    lookup("nvmlDeviceGetHandleByIndex", device, |world| {
        by_index(world, index)
    })
}

/// The device of that UUID.
///
/// # Safety
/// `uuid` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(
    uuid: *const c_char,
    device: Option<&mut Handle>,
) -> Return {
    lookup("nvmlDeviceGetHandleByUUID", device, |world| {
        // SAFETY: `uuid` is the caller's, passed on unchanged.
        unsafe { by_text(world, uuid, |device, text| device.uuid == text) }
    })
}

/// The device of that board serial number.
///
/// # Safety
/// `serial` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleBySerial(
    serial: *const c_char,
    device: Option<&mut Handle>,
) -> Return {
    lookup("nvmlDeviceGetHandleBySerial", device, |world| {
        // SAFETY: `serial` is the caller's, passed on unchanged.
        unsafe { by_text(world, serial, |device, text| device.serial == text) }
    })
}

fn sits_at(device: &Device, address: &str) -> bool {
    PciAddress::parse(address) == Some(device.pci)
}

/// The device at that PCI address.
///
/// # Safety
/// `address` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(
    address: *const c_char,
    device: Option<&mut Handle>,
) -> Return {
    lookup("nvmlDeviceGetHandleByPciBusId_v2", device, |world| {
        // SAFETY: `address` is the caller's, passed on unchanged.
        unsafe { by_text(world, address, sits_at) }
    })
}

/// The same.
///
/// # Safety
/// `address` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId(
    address: *const c_char,
    device: Option<&mut Handle>,
) -> Return {
    lookup("nvmlDeviceGetHandleByPciBusId", device, |world| {
        // SAFETY: `address` is the caller's, passed on unchanged.
        unsafe { by_text(world, address, sits_at) }
    })
}

/// What a return code means, in words of this library's own. Never null, never freed.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(result: Return) -> *const c_char {
    let words = match result {
        0 => c"success",
        1 => c"not initialised",
        2 => c"invalid argument",
        3 => c"not supported",
        4 => c"no permission",
        6 => c"not found",
        7 => c"insufficient size",
        9 => c"driver not loaded",
        10 => c"timeout",
        12 => c"library not found",
        13 => c"function not found",
        15 => c"GPU is lost",
        16 => c"GPU requires a reset",
        18 => c"driver and library versions differ",
        25 => c"argument version mismatch",
        _ => c"unknown error",
    };
    words.as_ptr()
}
