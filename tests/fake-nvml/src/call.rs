//! How each exported function runs: look at the scenario, hang if it says so, return the code that
//! it forces, else answer; then log. No panic leaves, and nothing is locked while a call hangs.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::sleep;
use std::time::Duration;

use crate::script::{Faults, Hang};
use crate::types::{Handle, Outcome, Return, code};
use crate::world::{self, Gpu, World};

/// How often a call that hangs for ever looks whether it still has to.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A call that init makes possible.
pub(crate) fn before_init(function: &str, body: impl FnOnce(&World) -> Outcome) -> Return {
    call(function, None, world::current, body)
}

/// A call about no device in particular.
pub(crate) fn library(function: &str, body: impl FnOnce(&World) -> Outcome) -> Return {
    call(function, None, world::initialised, body)
}

/// A call about the device behind a handle.
pub(crate) fn device(
    function: &str,
    handle: Handle,
    body: impl FnOnce(&Gpu<'_>) -> Outcome,
) -> Return {
    match handle.index() {
        Some(index) => about(function, index, body),
        None => library(function, |_| Err(code::INVALID_ARGUMENT)),
    }
}

/// A call that looks a device up; `find` gives its index. Once found, the device's faults count.
pub(crate) fn lookup(
    function: &str,
    to: Option<&mut Handle>,
    find: impl FnOnce(&World) -> Result<usize, Return>,
) -> Return {
    let found = world::initialised().and_then(|world| find(&world));
    match found {
        Ok(index) => about(function, index, |gpu| {
            crate::types::put(to, Handle::of(gpu.index))
        }),
        Err(why) => library(function, |_| Err(why)),
    }
}

fn about(function: &str, index: usize, body: impl FnOnce(&Gpu<'_>) -> Outcome) -> Return {
    call(function, Some(index), world::initialised, |world| {
        body(&world.gpu(index)?)
    })
}

fn call(
    function: &str,
    device: Option<usize>,
    look: fn() -> Result<Arc<World>, Return>,
    body: impl FnOnce(&World) -> Outcome,
) -> Return {
    let answer = || {
        hang(look()?.as_ref(), function, device);
        let world = look()?;
        let forced = scopes(&world, device).find_map(|faults| faults.forced(function));
        match forced {
            None | Some(code::SUCCESS) => body(&world),
            Some(code) => Err(code),
        }
    };
    let outcome = catch_unwind(AssertUnwindSafe(answer)).unwrap_or(Err(code::UNKNOWN));
    let result = outcome.err().unwrap_or(code::SUCCESS);
    log(function, device, result);
    result
}

/// Blocks as long as the scenario wants it.
fn hang(world: &World, function: &str, device: Option<usize>) {
    let wanted = |world: &World| scopes(world, device).find_map(|faults| faults.hang(function));
    let Some(first) = wanted(world) else { return };
    log(function, device, "hangs");
    match first {
        Hang::Milliseconds(length) => sleep(Duration::from_millis(length)),
        Hang::Forever => {
            let released = |world: Arc<World>| wanted(&world) != Some(Hang::Forever);
            while !world::current().is_ok_and(released) {
                sleep(LOOK_AGAIN);
            }
        }
    }
}

/// The faults that bear on a call, nearest first.
fn scopes(world: &World, device: Option<usize>) -> impl Iterator<Item = &Faults> {
    let device = device.and_then(|index| world.script.devices.get(index));
    device
        .map(|device| &device.faults)
        .into_iter()
        .chain([&world.script.faults])
}

/// Appends `FUNCTION DEVICE RETURN` to `$FAKE_NVML_LOG`; `-` for no device, `hangs` when a call
/// begins to hang. One write a line, so that lines of several threads and processes do not mix.
fn log(function: &str, device: Option<usize>, what: impl std::fmt::Display) {
    static LOG: OnceLock<Option<File>> = OnceLock::new();
    let open = || {
        let path = env::var_os("FAKE_NVML_LOG")?;
        OpenOptions::new().create(true).append(true).open(path).ok()
    };
    if let Some(mut file) = LOG.get_or_init(open).as_ref() {
        let device = device.map_or("-".into(), |index| index.to_string());
        // A log that cannot be written must not change what the library answers.
        let _ = file.write_all(format!("{function} {device} {what}\n").as_bytes());
    }
}

/// Exports NVML functions by name, and lists those names so that a scenario can be checked.
///
/// `device` functions take a handle first and their body is given the GPU; `library` ones are given
/// the world. `unsafe` ones take raw pointers, whose size the caller vouches for; all others take
/// `Option<&mut T>`, which is C's pointer that may be null.
macro_rules! exports {
    (device $list:ident { $(
        $(#[$meta:meta])*
        $name:ident($($arg:ident: $type:ty),*) = $body:expr;
    )* }) => {
        pub(crate) const $list: &[&str] = &[$(stringify!($name)),*];
        $(
            $(#[$meta])*
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(device: $crate::types::Handle, $($arg: $type),*) -> $crate::types::Return {
                $crate::call::device(stringify!($name), device, $body)
            }
        )*
    };
    (unsafe device $list:ident { $(
        $(#[$meta:meta])*
        $name:ident($($arg:ident: $type:ty),*) = $body:expr;
    )* }) => {
        pub(crate) const $list: &[&str] = &[$(stringify!($name)),*];
        $(
            $(#[$meta])*
            ///
            /// # Safety
            /// Each pointer is null or has room for as many items as the length beside it says.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(device: $crate::types::Handle, $($arg: $type),*) -> $crate::types::Return {
                $crate::call::device(stringify!($name), device, $body)
            }
        )*
    };
    ($by:ident $list:ident { $(
        $(#[$meta:meta])*
        $name:ident($($arg:ident: $type:ty),*) = $body:expr;
    )* }) => {
        pub(crate) const $list: &[&str] = &[$(stringify!($name)),*];
        $(
            $(#[$meta])*
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($arg: $type),*) -> $crate::types::Return {
                $crate::call::$by(stringify!($name), $body)
            }
        )*
    };
    (unsafe $by:ident $list:ident { $(
        $(#[$meta:meta])*
        $name:ident($($arg:ident: $type:ty),*) = $body:expr;
    )* }) => {
        pub(crate) const $list: &[&str] = &[$(stringify!($name)),*];
        $(
            $(#[$meta])*
            ///
            /// # Safety
            /// Each pointer is null or has room for as many items as the length beside it says.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> $crate::types::Return {
                $crate::call::$by(stringify!($name), $body)
            }
        )*
    };
}
pub(crate) use exports;
