//! The C side of NVML: return codes, constants and structs, written down from the documented
//! interface and held to its sizes at compile time. Independent of any binding crate on purpose,
//! so that a mistake there cannot hide here.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr;

/// `nvmlReturn_t`. An integer, since a scenario may force any code, known or not.
pub type Return = c_uint;

/// What a function body says: done, or the code to return instead.
pub(crate) type Outcome = Result<(), Return>;

/// The values of `nvmlReturn_t` that the library itself gives.
#[allow(missing_docs, reason = "the names are NVML's own, less NVML_ERROR_")]
pub mod code {
    use super::Return;
    pub const SUCCESS: Return = 0;
    pub const UNINITIALIZED: Return = 1;
    pub const INVALID_ARGUMENT: Return = 2;
    pub const NOT_SUPPORTED: Return = 3;
    pub const NOT_FOUND: Return = 6;
    pub const INSUFFICIENT_SIZE: Return = 7;
    pub const TIMEOUT: Return = 10;
    pub const GPU_IS_LOST: Return = 15;
    pub const ARGUMENT_VERSION_MISMATCH: Return = 25;
    pub const UNKNOWN: Return = 999;
}

/// `nvmlEventTypeXidCriticalError`.
pub const EVENT_XID: c_ulonglong = 0x8;
/// `NVML_VALUE_NOT_AVAILABLE` for 64 bits: the driver cannot tell.
pub const NOT_AVAILABLE: c_ulonglong = c_ulonglong::MAX;
/// The GPU or compute instance of something that belongs to the whole GPU.
pub const NO_INSTANCE: c_uint = c_uint::MAX;
/// `version` of [`MemoryV2`]: its size, and 2 in the top byte.
pub const MEMORY_V2_VERSION: c_uint = 0x0200_0028;
/// `version` of [`TemperatureV1`]: its size, and 1 in the top byte.
pub const TEMPERATURE_V1_VERSION: c_uint = 0x0100_000C;

/// `nvmlDevice_t`: opaque to the caller; here an index in disguise, never dereferenced.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(*mut c_void);

impl Handle {
    const BASE: usize = 0x0fa4_e000;
    /// What an uninitialised variable of the caller would hold.
    pub const NULL: Self = Self(ptr::null_mut());

    pub(crate) fn of(index: usize) -> Self {
        Self(ptr::without_provenance_mut(Self::BASE + 16 * index))
    }

    /// The index that [`Handle::of`] put in; `None` for any pointer that it did not make.
    pub(crate) fn index(self) -> Option<usize> {
        let offset = self.0.addr().checked_sub(Self::BASE)?;
        (offset % 16 == 0 && offset / 16 < crate::script::MAX_DEVICES).then_some(offset / 16)
    }
}

/// Declares `#[repr(C)]` structs with the size that NVML's header gives them.
macro_rules! c_structs {
    ($($(#[$meta:meta])* $name:ident ($size:literal) { $($field:ident: $ty:ty,)* })*) => {$(
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "the fields are NVML's")]
        pub struct $name { $(pub $field: $ty,)* }
        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}

c_structs! {
    /// `nvmlMemory_t`, bytes; `used` includes what the driver reserves.
    Memory(24) { total: c_ulonglong, free: c_ulonglong, used: c_ulonglong, }

    /// `nvmlMemory_v2_t`, bytes; `used` excludes `reserved`.
    MemoryV2(40) {
        version: c_uint,
        total: c_ulonglong,
        reserved: c_ulonglong,
        free: c_ulonglong,
        used: c_ulonglong,
    }

    /// `nvmlBAR1Memory_t`, bytes.
    Bar1Memory(24) { total: c_ulonglong, free: c_ulonglong, used: c_ulonglong, }

    /// `nvmlUtilization_t`, percent of the last sample period.
    Utilization(8) { gpu: c_uint, memory: c_uint, }

    /// `nvmlProcessInfo_v1_t`: the layout of the functions without a suffix.
    ProcessInfoV1(16) { pid: c_uint, used_gpu_memory: c_ulonglong, }

    /// `nvmlProcessInfo_t`, as `_v2` and `_v3` of the functions fill it.
    ProcessInfo(24) {
        pid: c_uint,
        used_gpu_memory: c_ulonglong,
        gpu_instance_id: c_uint,
        compute_instance_id: c_uint,
    }

    /// `nvmlPciInfo_v2_t`: the layout before `_v3`.
    PciInfoV2(52) {
        bus_id: [c_char; 16],
        domain: c_uint,
        bus: c_uint,
        device: c_uint,
        pci_device_id: c_uint,
        pci_sub_system_id: c_uint,
        reserved: [c_uint; 4],
    }

    /// `nvmlPciInfo_t`: the layout of `_v3`.
    PciInfo(68) {
        bus_id_legacy: [c_char; 16],
        domain: c_uint,
        bus: c_uint,
        device: c_uint,
        pci_device_id: c_uint,
        pci_sub_system_id: c_uint,
        bus_id: [c_char; 32],
    }

    /// `nvmlEventData_t` as `nvmlEventSetWait` without suffix fills it.
    EventDataV1(24) { device: Handle, event_type: c_ulonglong, event_data: c_ulonglong, }

    /// `nvmlEventData_t`; `event_data` is the XID when `event_type` is [`EVENT_XID`].
    EventData(32) {
        device: Handle,
        event_type: c_ulonglong,
        event_data: c_ulonglong,
        gpu_instance_id: c_uint,
        compute_instance_id: c_uint,
    }

    /// `nvmlProcessUtilizationSample_t`; microseconds since 1970, percent.
    ProcessUtilization(32) {
        pid: c_uint,
        time_stamp: c_ulonglong,
        sm_util: c_uint,
        mem_util: c_uint,
        enc_util: c_uint,
        dec_util: c_uint,
    }

    /// `nvmlTemperature_v1_t`, degrees Celsius.
    TemperatureV1(12) { version: c_uint, sensor_type: c_uint, temperature: c_int, }

    /// `nvmlViolationTime_t`: microseconds of reference, nanoseconds of violation.
    ViolationTime(16) { reference_time: c_ulonglong, violation_time: c_ulonglong, }
}

/// `nvmlValue_t`; which field counts is said beside it, by a [`value_type`].
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the fields are NVML's")]
pub union Value {
    pub double: f64,
    pub unsigned_int: c_uint,
    pub unsigned_long_long: c_ulonglong,
    pub signed_long_long: i64,
}
const _: () = assert!(size_of::<Value>() == 8);

/// The values of `nvmlValueType_t` in use here.
#[allow(missing_docs, reason = "the names are NVML's own")]
pub mod value_type {
    use std::ffi::c_uint;
    pub const UNSIGNED_INT: c_uint = 1;
    pub const UNSIGNED_LONG_LONG: c_uint = 3;
}

/// `nvmlSample_t`; microseconds since 1970.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the fields are NVML's")]
pub struct Sample {
    pub time_stamp: c_ulonglong,
    pub sample_value: Value,
}
const _: () = assert!(size_of::<Sample>() == 16);

/// `nvmlFieldValue_t`; microseconds since 1970, and how long the reading took.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the fields are NVML's")]
pub struct FieldValue {
    pub field_id: c_uint,
    pub scope_id: c_uint,
    pub timestamp: i64,
    pub latency_usec: i64,
    pub value_type: c_uint,
    pub nvml_return: Return,
    pub value: Value,
}
const _: () = assert!(size_of::<FieldValue>() == 40);

/// Answers through an out-parameter; null is the caller's mistake.
pub(crate) fn put<T>(to: Option<&mut T>, value: T) -> Outcome {
    *to.ok_or(code::INVALID_ARGUMENT)? = value;
    Ok(())
}

/// Answers with a C string, as all NVML functions with a buffer and its length do.
///
/// # Safety
/// `to` is null or has room for `length` bytes.
pub(crate) unsafe fn put_text(text: &str, to: *mut c_char, length: c_uint) -> Outcome {
    if to.is_null() {
        return Err(code::INVALID_ARGUMENT);
    }
    if text.len() >= length as usize {
        return Err(code::INSUFFICIENT_SIZE);
    }
    let bytes: Vec<u8> = text.bytes().chain([0]).collect();
    // SAFETY: `to` has room for `length` bytes, and the text with its zero has no more.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, bytes.len()) };
    Ok(())
}

/// Answers with the first `items` that fit the caller's array, and says how many those were.
///
/// # Safety
/// `to` has room for `*count` items.
pub(crate) unsafe fn put_list<T: Copy>(items: &[T], to: *mut T, count: &mut c_uint) {
    let given = items.len().min(*count as usize);
    // SAFETY: `to` has room for `*count` items and `given` is no more.
    unsafe { ptr::copy_nonoverlapping(items.as_ptr(), to, given) };
    *count = given as c_uint;
}

/// `text` as a fixed array, cut if need be, always ended by a zero.
pub(crate) fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, byte) in out[..N - 1].iter_mut().zip(text.bytes()) {
        *to = byte as c_char;
    }
    out
}
