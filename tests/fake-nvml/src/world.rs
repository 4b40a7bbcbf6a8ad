//! The world as the scenario has it right now: the file is looked at before each call, and what its
//! earlier versions said is kept, so that energy and samples stay true over an edit.
//! The one lock of this file is held for a `stat`, at times a read, and never during a hang.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

use crate::field::Field;
use crate::profile::{History, Profile};
use crate::script::{Device, Script};
use crate::types::{Return, code};

/// A scenario in force, from its last change on.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) script: Script,
    /// Second 0 of the scenario, microseconds since 1970.
    start_us: u64,
    /// The latest moment that a call has answered for: an edit counts from then at the earliest,
    /// though file times are coarser, or no counter would be monotonic.
    answered_us: AtomicU64,
    /// By UUID, since an index may come to mean another GPU.
    past: HashMap<String, Past>,
}

/// What is summed over time for one GPU.
#[derive(Clone, Debug)]
struct Past {
    util: History,
    mem_util: History,
    power: History,
    /// The scenario's `energy_mj`, and the second from which power is added to it.
    energy: (u64, f64),
}

/// One GPU at one instant: what a device call reads.
pub(crate) struct Gpu<'a> {
    pub(crate) index: usize,
    pub(crate) device: &'a Device,
    /// Microseconds since 1970.
    pub(crate) now_us: u64,
    start_us: u64,
    past: &'a Past,
}

impl World {
    /// The script that was found at `now_us` and written at `changed_us`.
    fn new(script: Script, changed_us: u64, now_us: u64, previous: Option<&Self>) -> Self {
        let fallback = previous.map_or(now_us, |world| world.start_us);
        let start_us = script.epoch_us.unwrap_or(fallback);
        let previous = previous.filter(|world| world.start_us == start_us);
        let mut past = previous.map(|world| world.past.clone()).unwrap_or_default();
        let answered_us = previous.map_or(0, |world| world.answered_us.load(Ordering::SeqCst));
        let t = seconds_between(start_us, changed_us.max(answered_us).min(now_us));
        for device in &script.devices {
            let [util, mem_util, power] = [Field::Util, Field::MemUtil, Field::PowerMw]
                .map(|field| device.value(field).cloned().unwrap_or(Profile::constant(0)));
            let past = past.entry(device.uuid.clone()).or_insert_with(|| Past {
                util: History::new(&util),
                mem_util: History::new(&mem_util),
                power: History::new(&power),
                energy: (device.energy_mj, 0.0),
            });
            past.util.follow(t, &util);
            past.mem_util.follow(t, &mem_util);
            past.power.follow(t, &power);
            if past.energy.0 != device.energy_mj {
                past.energy = (device.energy_mj, t);
            }
        }
        Self {
            script,
            start_us,
            answered_us: AtomicU64::new(answered_us),
            past,
        }
    }

    /// The GPU of that index, now; lost if there was one and the scenario's count has fallen.
    pub(crate) fn gpu(&self, index: usize) -> Result<Gpu<'_>, Return> {
        let device = self.script.devices.get(index).ok_or(code::GPU_IS_LOST)?;
        let now_us = now_us();
        self.answered_us.fetch_max(now_us, Ordering::SeqCst);
        Ok(Gpu {
            index,
            device,
            now_us,
            start_us: self.start_us,
            past: &self.past[&device.uuid],
        })
    }
}

impl Gpu<'_> {
    /// A number as it is now.
    pub(crate) fn get(&self, field: Field) -> Result<u64, Return> {
        let profile = self.device.value(field).ok_or(code::NOT_SUPPORTED)?;
        Ok(profile.at(self.second(self.now_us)))
    }

    /// The same, for the many calls that answer with an `unsigned int`.
    pub(crate) fn get_u32(&self, field: Field) -> Result<u32, Return> {
        self.get(field).map(|value| value as u32)
    }

    /// Energy since the start, mJ.
    pub(crate) fn energy_mj(&self) -> u64 {
        let (base, since) = self.past.energy;
        let spent = self.past.power.area(since, self.second(self.now_us));
        base + spent.max(0.0) as u64
    }

    /// The driver's buffer of one number, oldest first: (microseconds since 1970, mean of the period
    /// that ended then), newer than `after_us`. `None` for a number without such a buffer.
    pub(crate) fn samples(&self, field: Field, after_us: u64) -> Option<Vec<(u64, u64)>> {
        let history = match field {
            Field::Util => &self.past.util,
            Field::MemUtil => &self.past.mem_util,
            Field::PowerMw => &self.past.power,
            _ => return None,
        };
        let period_us = self.get(Field::SampleMs).ok()?.max(1) * 1_000;
        let newest = self.now_us / period_us;
        let oldest = newest.saturating_sub(self.get(Field::SampleCount).ok()?) + 1;
        let ends = (oldest..=newest)
            .map(|nth| nth * period_us)
            .filter(|end| *end > after_us);
        let mean = |end_us: u64| {
            let (from, to) = (self.second(end_us - period_us), self.second(end_us));
            (history.area(from, to) / (to - from)).round() as u64
        };
        Some(ends.map(|end_us| (end_us, mean(end_us))).collect())
    }

    fn second(&self, at_us: u64) -> f64 {
        seconds_between(self.start_us, at_us)
    }
}

fn seconds_between(start_us: u64, end_us: u64) -> f64 {
    (end_us as f64 - start_us as f64) / 1e6
}

fn now_us() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as u64)
}

/// The library's state: which file, what it said last, and whether the caller has begun.
/// A file that is gone, perhaps between unlink and create, has said nothing new.
struct State {
    path: Option<PathBuf>,
    file: Option<Loaded>,
    /// How often init was called, less shutdown.
    inits: u32,
    /// The scenario's `generation` at the first of these.
    generation: u64,
}

/// The scenario file as it was last read.
struct Loaded {
    signature: Signature,
    /// Written so shortly before that a further edit might have the same signature.
    fresh: bool,
    /// `None` if it could not be read.
    text: Option<String>,
    /// The last version that could be read, even when this one cannot.
    good: Option<Arc<World>>,
    /// The text is a scenario.
    valid: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Signature {
    inode: u64,
    size: u64,
    modified_us: u64,
    changed_us: u64,
}

static STATE: Mutex<State> = Mutex::new(State {
    path: None,
    file: None,
    inits: 0,
    generation: 0,
});

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes another file from now on, with nothing remembered of the one before.
pub(crate) fn use_scenario(path: &Path) {
    *state() = State {
        path: Some(path.into()),
        file: None,
        inits: 0,
        generation: 0,
    };
}

/// The world now; UNKNOWN when there is no scenario that could be read.
pub(crate) fn current() -> Result<Arc<World>, Return> {
    state().refresh()
}

/// The world now, for a caller that has called init since the driver was last loaded.
pub(crate) fn initialised() -> Result<Arc<World>, Return> {
    let mut state = state();
    let world = state.refresh()?;
    if state.inits == 0 || state.generation != world.script.generation {
        return Err(code::UNINITIALIZED);
    }
    Ok(world)
}

/// Counts one init.
pub(crate) fn init(world: &World) {
    let mut state = state();
    if state.generation != world.script.generation {
        state.inits = 0;
    }
    state.inits += 1;
    state.generation = world.script.generation;
}

/// Counts one shutdown; UNINITIALIZED if there was no init.
pub(crate) fn shutdown() -> Result<(), Return> {
    let mut state = state();
    state.inits = state.inits.checked_sub(1).ok_or(code::UNINITIALIZED)?;
    Ok(())
}

impl State {
    fn refresh(&mut self) -> Result<Arc<World>, Return> {
        let path = self.path.get_or_insert_with(default_path);
        let signature = Signature::of(path);
        let old = match &self.file {
            None => true,
            Some(file) => signature.is_some_and(|now| file.fresh || file.signature != now),
        };
        if old {
            let before = self.file.take();
            self.file = Some(Loaded::read(path, signature.unwrap_or_default(), before));
        }
        let file = self.file.as_ref().filter(|file| file.valid);
        file.and_then(|file| file.good.clone()).ok_or(code::UNKNOWN)
    }
}

impl Loaded {
    /// Reads the file; what is wrong with it is told here, so once for each version of it.
    fn read(path: &Path, signature: Signature, before: Option<Self>) -> Self {
        let now_us = now_us();
        let fresh = now_us < signature.modified_us.max(signature.changed_us) + 100_000;
        let read = fs::read_to_string(path);
        let text = read.as_ref().ok().cloned();
        let good = match before {
            Some(before) if before.text == text => {
                return Self {
                    signature,
                    fresh,
                    ..before
                };
            }
            before => before.and_then(|before| before.good),
        };
        let script = read
            .map_err(|error| format!(" cannot be read: {error}"))
            .and_then(|text| Script::parse(&text).map_err(|why| format!(":{why}")));
        let valid = script.is_ok();
        let good = match script {
            Ok(script) => {
                let world = World::new(script, signature.modified_us, now_us, good.as_deref());
                Some(Arc::new(world))
            }
            Err(why) => {
                eprintln!("fake-nvml: {}{why}", path.display());
                good
            }
        };
        Self {
            signature,
            fresh,
            text,
            good,
            valid,
        }
    }
}

impl Signature {
    fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        let micros = |seconds: i64, nanos: i64| (seconds * 1_000_000 + nanos / 1_000) as u64;
        Some(Self {
            inode: file.ino(),
            size: file.size(),
            modified_us: micros(file.mtime(), file.mtime_nsec()),
            changed_us: micros(file.ctime(), file.ctime_nsec()),
        })
    }
}

/// `$FAKE_NVML`, else the file beside this library that has its name and `.scenario`.
fn default_path() -> PathBuf {
    if let Some(path) = env::var_os("FAKE_NVML") {
        return path.into();
    }
    let mut path = own_file().unwrap_or_default().into_os_string();
    path.push(".scenario");
    path.into()
}

/// The file that this code was loaded from: the mapping that holds one of its functions.
fn own_file() -> Option<PathBuf> {
    let here = own_file as fn() -> Option<PathBuf> as usize;
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let holds_us = |line: &&str| {
        let ends = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'));
        let ends = ends.map(|(from, to)| [from, to].map(|end| usize::from_str_radix(end, 16)));
        matches!(ends, Some([Ok(from), Ok(to)]) if (from..to).contains(&here))
    };
    let line = maps.lines().find(holds_us)?;
    line.find('/').map(|start| line[start..].into())
}
