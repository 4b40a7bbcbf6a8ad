//! A `libnvidia-ml.so.1` that knows four functions and one GPU: what a program meets when the
//! library is older than its headers, or of another make. Every other symbol is absent.
//!
//! `nvmlInit_v2` is all that a start needs. `nvmlShutdown` and `nvmlEventSetFree` are here because
//! nvml-wrapper panics, instead of reporting an error, when they are absent at a drop.
//! The path of the built library: `fake_nvml::minimal_library_path()`.

#![allow(non_snake_case, reason = "NVML names its functions")]

use std::ffi::{c_uint, c_void};

/// NVML_SUCCESS.
const SUCCESS: c_uint = 0;
/// NVML_ERROR_INVALID_ARGUMENT.
const INVALID_ARGUMENT: c_uint = 2;

/// Succeeds each time.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_uint {
    SUCCESS
}

/// Succeeds each time.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_uint {
    SUCCESS
}

/// There is one GPU, and no function to reach it by.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount_v2(count: Option<&mut c_uint>) -> c_uint {
    let Some(count) = count else {
        return INVALID_ARGUMENT;
    };
    *count = 1;
    SUCCESS
}

/// No event set can have been made here, so whatever is given is not one.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetFree(_set: *mut c_void) -> c_uint {
    INVALID_ARGUMENT
}
