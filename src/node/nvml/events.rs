//! XID errors as they come: one thread for each GPU, since an event names its GPU only by a handle, and a GPU that has
//! just been lost can no longer be asked who it is. A driver without events has no XIDs here, and that is all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;

use super::Library;

/// How long one wait lasts; so long, at most, does the end of a session take.
const WAIT: Duration = Duration::from_millis(250);
/// NVML's number for an XID that it does not know (`nvmlEventData_t` in nvml.h).
const UNKNOWN_XID: u64 = 999;

/// The threads that wait.
pub(super) struct Events {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// UUID and XID. Not bounded: a GPU that fails sends few, and they are taken each second.
    received: Receiver<(String, u64)>,
}

impl Events {
    /// Begins to wait for all GPUs that can be read now. What was before is not told.
    pub(super) fn listen(library: &Arc<Library>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, received) = channel();
        let mut threads = Vec::new();
        // A set that cannot be freed would panic at its end.
        let frees = library.lib().nvmlEventSetFree.is_ok();
        let count = library.device_count().unwrap_or(0);
        for index in (0..count).filter(|_| frees) {
            let uuid = library.device_by_index(index).and_then(|gpu| gpu.uuid());
            let Ok(uuid) = uuid else { continue };
            let (library, stop, sender) = (library.clone(), stop.clone(), sender.clone());
            let thread = thread::Builder::new()
                .name(format!("xid {index}"))
                .spawn(move || {
                    // No events from this GPU, or the session ends.
                    let _ = wait(&library, index, &uuid, &stop, &sender);
                });
            threads.extend(thread);
        }
        Self {
            stop,
            threads,
            received,
        }
    }

    /// What has come since the last call.
    pub(super) fn received(&self) -> impl Iterator<Item = (String, u64)> {
        self.received.try_iter()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // One that panicked has ended too.
            let _ = thread.join();
        }
    }
}

fn wait(
    library: &Library,
    index: u32,
    uuid: &str,
    stop: &AtomicBool,
    sender: &Sender<(String, u64)>,
) -> Result<(), NvmlError> {
    let set = library.create_event_set()?;
    let set = library
        .device_by_index(index)?
        .register_events(EventTypes::CRITICAL_XID_ERROR, set)
        .map_err(|e| e.error)?;
    while !stop.load(Ordering::Relaxed) {
        match set.wait(WAIT.as_millis() as u32) {
            Ok(event) => {
                let xid = event.event_data.map(|xid| match xid {
                    XidError::Value(xid) => xid,
                    XidError::Unknown => UNKNOWN_XID,
                });
                let told = xid.map(|xid| sender.send((uuid.to_owned(), xid)));
                if told.is_some_and(|told| told.is_err()) {
                    return Ok(());
                }
            }
            Err(NvmlError::Timeout) => {}
            // Lost, perhaps, or reset: it may come back, and the session may end.
            Err(_) => thread::park_timeout(WAIT),
        }
    }
    Ok(())
}
