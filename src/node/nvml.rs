//! The GPUs by NVML, the library of the NVIDIA driver. With `nvml/` the only place that names `nvml_wrapper`.
//!
//! Whatever the driver refuses is one absent field, a GPU that it has lost is one GPU down, and only a driver that
//! cannot be asked at all is an error: then the library is closed and opened again, at growing distances. A call may
//! never return, so this runs in the worker process (`run/worker.rs`). It reads no clock; its threads wait for XIDs.

mod busy;
mod device;
mod events;
pub mod ledger;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::job::Unix;
use crate::node::gpu::{Gpu, NONE, Xid};
use busy::Busy;
use device::Trouble;
use events::Events;
use ledger::Ledger;

/// The library's name, found where the loader looks.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// There while the kernel has NVIDIA's driver.
const DRIVER: &str = "/proc/driver/nvidia/version";

/// Seconds from one opening of the library to the next: the first, doubled each time up to the longest.
const FIRST_PAUSE: f64 = 1.0;
const LONGEST_PAUSE: f64 = 60.0;

/// All GPUs of this node, by NVML.
pub struct Nvml {
    path: PathBuf,
    /// The library, open and initialised, or why it is not.
    session: Result<Session, String>,
    attempts: Attempts,
    /// A new session is due, but the library at hand cannot be closed.
    spent: bool,
    /// By UUID.
    busy: BTreeMap<String, Busy>,
    /// By UUID, then by XID.
    xids: BTreeMap<String, BTreeMap<u64, Xid>>,
    ledger: Ledger,
}

/// One initialisation of the library.
struct Session {
    // Dropped in this order: no thread waits in a library that is shut down.
    events: Events,
    library: Arc<Library>,
    driver_version: String,
}

/// The open library. Where it lacks `nvmlShutdown` it stays open: the wrapper's own drop would panic.
struct Library(Option<nvml_wrapper::Nvml>);

impl Nvml {
    /// Nothing is opened yet. Without a path the loader looks for `libnvidia-ml.so.1`.
    pub fn new(library: Option<&Path>) -> Self {
        Self {
            path: library.unwrap_or(Path::new(LIBRARY)).to_owned(),
            session: Err("NVML is not open yet".to_owned()),
            attempts: Attempts::default(),
            spent: false,
            busy: BTreeMap::new(),
            xids: BTreeMap::new(),
            ledger: Ledger::default(),
        }
    }

    /// All GPUs at `now`, and those that were there and cannot be read any more.
    pub fn look(&mut self, now: Unix) -> Result<Vec<Gpu>, String> {
        let mut read = self.read(now);
        if read
            .as_ref()
            .is_ok_and(|gpus| gpus.iter().any(|gpu| gpu.up))
        {
            self.attempts.answered(now);
        } else if self.attempts.due(now) {
            self.open();
            read = self.read(now);
        }
        let mut gpus = self.ledger.take(read?);
        if gpus.is_empty() {
            return Err("the driver knows no GPU".to_owned());
        }
        for gpu in &mut gpus {
            gpu.xids = self.xids.get(&gpu.uuid).cloned().unwrap_or_default();
        }
        Ok(gpus)
    }

    /// The library must be opened anew, which this process cannot do: another one can.
    pub fn spent(&self) -> bool {
        self.spent
    }

    /// Asks each GPU. A lost one is in the list with nothing but its index; one that cannot be read is not.
    fn read(&mut self, now: Unix) -> Result<Vec<Gpu>, String> {
        let session = self.session.as_ref().map_err(Clone::clone)?;
        for (uuid, xid) in session.events.received() {
            let seen = self.xids.entry(uuid).or_default().entry(xid).or_default();
            seen.count += 1;
            seen.last = now;
        }
        let count = session
            .library
            .device_count()
            .map_err(|e| format!("NVML cannot count the GPUs: {e}"))?;
        let (mut gpus, mut refused) = (Vec::new(), None);
        for index in 0..count {
            match device::read(&session.library, index, &mut self.busy, now) {
                Ok(gpu) => gpus.push(Gpu {
                    driver_version: session.driver_version.clone(),
                    ..gpu
                }),
                Err(Trouble::Lost) => gpus.push(Gpu {
                    index,
                    ..Gpu::default()
                }),
                Err(Trouble::Stale(why)) => return Err(format!("GPU {index}: {why}")),
                Err(Trouble::Refused(why)) => refused = Some(format!("GPU {index}: {why}")),
            }
        }
        match refused {
            Some(why) if gpus.is_empty() && self.ledger.is_empty() => Err(why),
            Some(_) | None => Ok(gpus),
        }
    }

    /// Opens the library, after closing it.
    fn open(&mut self) {
        if self.session.as_ref().is_ok_and(|old| !old.library.closes()) {
            self.spent = true;
            return;
        }
        self.session = Err("NVML is closed".to_owned());
        self.session = Session::open(&self.path);
    }
}

impl Session {
    fn open(path: &Path) -> Result<Self, String> {
        let opened = nvml_wrapper::Nvml::builder()
            .lib_path(path.as_os_str())
            .init();
        let nvml = opened.map_err(|e| {
            if let nvml_wrapper::error::NvmlError::LibloadingError(e) = e {
                return unloaded(path, &e.to_string(), Path::new(DRIVER).exists());
            }
            format!("NVML cannot be opened: {e}")
        })?;
        let driver_version = nvml.sys_driver_version().unwrap_or_default();
        let library = Arc::new(Library(Some(nvml)));
        Ok(Self {
            events: Events::listen(&library),
            library,
            driver_version,
        })
    }
}

/// Why the library could not be loaded. That it is nowhere is no fault, unless it was named or the kernel has the driver.
fn unloaded(path: &Path, why: &str, driver: bool) -> String {
    let absent = why.contains(LIBRARY) && why.contains("No such file");
    match path == Path::new(LIBRARY) && absent {
        true if driver => format!(
            "the NVIDIA driver is loaded, and its library is not seen here ({why}): in a container, have the runtime \
             mount it; else name it with --nvml.library"
        ),
        true => format!(
            "{NONE}, since it has no driver for them ({why}). If there are some, install it, or name its library with \
             --nvml.library"
        ),
        false => format!("NVIDIA's library cannot be loaded: {why}"),
    }
}

impl Library {
    fn closes(&self) -> bool {
        self.lib().nvmlShutdown.is_ok()
    }
}

impl Deref for Library {
    type Target = nvml_wrapper::Nvml;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("taken only by the drop")
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let closes = self.closes();
        if let Some(nvml) = self.0.take().filter(|_| !closes) {
            std::mem::forget(nvml);
        }
    }
}

/// When the library may be opened again.
struct Attempts {
    next: Unix,
    /// Seconds.
    pause: f64,
    asked: Unix,
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            next: Unix::MIN,
            pause: FIRST_PAUSE,
            asked: Unix::MIN,
        }
    }
}

impl Attempts {
    /// Whether now is the time; if so, the next one is further off.
    fn due(&mut self, now: Unix) -> bool {
        // A clock that was set back must not hold up the next attempt.
        let set_back = now < self.asked;
        self.asked = now;
        if now < self.next && !set_back {
            return false;
        }
        self.next = now + self.pause;
        self.pause = (2.0 * self.pause).min(LONGEST_PAUSE);
        true
    }

    /// All is well, and longer than the pause was: the next trouble is a new one.
    fn answered(&mut self, now: Unix) {
        if now >= self.next {
            self.pause = FIRST_PAUSE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_library_that_nobody_named_or_needs_may_be_absent() {
        let absent = "libnvidia-ml.so.1: cannot open shared object file: No such file or directory";
        let broken = "libnvidia-ml.so.1: file too short";
        let needs = "libcuda-x.so: cannot open shared object file: No such file or directory";
        for (path, why, driver, fine) in [
            (LIBRARY, absent, false, true),
            (LIBRARY, absent, true, false),
            (LIBRARY, broken, false, false),
            (LIBRARY, needs, false, false),
            ("/opt/libnvidia-ml.so.1", absent, false, false),
        ] {
            let told = unloaded(Path::new(path), why, driver);
            assert!(told.contains(why), "{told}");
            assert_eq!(told.starts_with(NONE), fine, "{told}");
        }
    }

    #[test]
    fn attempts_are_spaced_out_until_all_is_well() {
        let mut attempts = Attempts::default();
        let due: Vec<u32> = (0..200).filter(|t| attempts.due(f64::from(*t))).collect();
        assert_eq!(due, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
        attempts.answered(200.0);
        assert!(!attempts.due(201.0), "too early to call it well");
        attempts.answered(243.0);
        assert!(attempts.due(244.0));
        assert!(attempts.due(245.0), "the first pause again");
        assert!(attempts.due(100.0), "the clock was set back");
    }
}
