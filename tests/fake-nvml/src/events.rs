//! Event sets: an `N.xid SEQUENCE:XID` of the scenario that was not there when the device was
//! registered is delivered once to each set. Of all event types only XIDs ever happen.

use std::collections::BTreeMap;
use std::ffi::{c_uint, c_ulonglong, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::call::exports;
use crate::field::Field;
use crate::types::{EVENT_XID, EventData, EventDataV1, Handle, NO_INSTANCE, Return, code, put};
use crate::world;

/// How soon after an edit of the scenario a waiting caller is told.
const TICK: Duration = Duration::from_millis(5);

/// `nvmlEventSet_t`: opaque to the caller; here a number in disguise, never dereferenced.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct EventSet(*mut c_void);

impl EventSet {
    /// What an uninitialised variable of the caller would hold.
    pub const NULL: Self = Self(ptr::null_mut());
}

/// What one set listens to: by device, the mask of types and the newest sequence number it has had.
type Registered = BTreeMap<usize, (c_ulonglong, u64)>;

/// All sets that were created and not freed, by the address that the caller holds; and the last
/// address given.
static SETS: Mutex<(BTreeMap<usize, Registered>, usize)> = Mutex::new((BTreeMap::new(), 0xfa4e));

fn sets() -> MutexGuard<'static, (BTreeMap<usize, Registered>, usize)> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `body` on a set, under the lock: it must not block.
fn with_set<T>(
    set: EventSet,
    body: impl FnOnce(&mut Registered) -> Result<T, Return>,
) -> Result<T, Return> {
    let mut sets = sets();
    body(
        sets.0
            .get_mut(&set.0.addr())
            .ok_or(code::INVALID_ARGUMENT)?,
    )
}

exports! { device REGISTRATION {
    /// The mask that [`nvmlDeviceRegisterEvents`] takes.
    nvmlDeviceGetSupportedEventTypes(types: Option<&mut c_ulonglong>) =
        |gpu| put(types, gpu.get(Field::EventTypes)?);
    /// Begins to listen; what has happened before is not told. Types that the device does not
    /// support: NOT_SUPPORTED.
    nvmlDeviceRegisterEvents(types: c_ulonglong, set: EventSet) = |gpu| {
        if types & !gpu.get(Field::EventTypes)? != 0 {
            return Err(code::NOT_SUPPORTED);
        }
        let newest = gpu.device.xids.iter().map(|(sequence, _)| *sequence).max().unwrap_or(0);
        with_set(set, |registered| {
            let entry = registered.entry(gpu.index).or_insert((0, newest));
            entry.0 |= types;
            Ok(())
        })
    };
}}

exports! { library SETS_CALLS {
    /// A new set that listens to nothing.
    nvmlEventSetCreate(set: Option<&mut EventSet>) = |_| {
        let set = set.ok_or(code::INVALID_ARGUMENT)?;
        let mut sets = sets();
        sets.1 += 16;
        let address = sets.1;
        sets.0.insert(address, Registered::new());
        *set = EventSet(ptr::without_provenance_mut(address));
        Ok(())
    };
    /// Forgets a set; a caller that still waits on it is told INVALID_ARGUMENT.
    nvmlEventSetFree(set: EventSet) =
        |_| sets().0.remove(&set.0.addr()).map(|_| ()).ok_or(code::INVALID_ARGUMENT);
    /// Blocks until an event or for that many milliseconds, then TIMEOUT.
    nvmlEventSetWait_v2(set: EventSet, data: Option<&mut EventData>, timeout_ms: c_uint) =
        |_| put(data, wait(set, timeout_ms)?);
    /// The same, in the layout without instances.
    nvmlEventSetWait(set: EventSet, data: Option<&mut EventDataV1>, timeout_ms: c_uint) = |_| {
        let EventData { device, event_type, event_data, .. } = wait(set, timeout_ms)?;
        put(data, EventDataV1 { device, event_type, event_data })
    };
}}

fn wait(set: EventSet, timeout_ms: c_uint) -> Result<EventData, Return> {
    let end = Instant::now() + Duration::from_millis(timeout_ms.into());
    loop {
        if let Some(event) = take_event(set)? {
            return Ok(event);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(code::TIMEOUT);
        }
        sleep(left.min(TICK));
    }
}

/// The oldest XID that a set has not had yet, of the lowest device.
fn take_event(set: EventSet) -> Result<Option<EventData>, Return> {
    let world = world::initialised()?;
    with_set(set, |registered| {
        for (index, (types, seen)) in registered {
            let Some(device) = world.script.devices.get(*index) else {
                continue;
            };
            let unseen = device
                .xids
                .iter()
                .filter(|(sequence, _)| sequence > seen)
                .min();
            let listens = *types & EVENT_XID != 0;
            if let Some((sequence, xid)) = unseen.filter(|_| listens) {
                *seen = *sequence;
                return Ok(Some(EventData {
                    device: Handle::of(*index),
                    event_type: EVENT_XID,
                    event_data: *xid,
                    gpu_instance_id: NO_INSTANCE,
                    compute_instance_id: NO_INSTANCE,
                }));
            }
        }
        Ok(None)
    })
}
