//! The scenario file: its text becomes a [`Script`], or the first line that is wrong is told.
//! No file, clock or lock here. The grammar is in the crate's documentation.

use std::collections::{HashMap, HashSet};

use crate::field::{FIELDS, Field};
use crate::profile::{Profile, seconds};
use crate::types::{NO_INSTANCE, NOT_AVAILABLE, Return};

/// More GPUs than any one node has.
pub(crate) const MAX_DEVICES: usize = 64;

/// All that a scenario file says.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) driver: String,
    /// The library's own version.
    pub(crate) nvml: String,
    /// CUDA version as NVML counts: 1000 x major + 10 x minor.
    pub(crate) cuda: u32,
    /// Where second 0 lies, microseconds since 1970; without it, at the first init.
    pub(crate) epoch_us: Option<u64>,
    /// Another number means that the driver was reloaded.
    pub(crate) generation: u64,
    pub(crate) faults: Faults,
    pub(crate) devices: Vec<Device>,
}

/// What goes wrong on purpose, for one device or for the whole library.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    returns: HashMap<String, Return>,
    hangs: HashMap<String, Hang>,
}

/// How long a call does not return.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Hang {
    /// Until the scenario says otherwise.
    Forever,
    Milliseconds(u64),
}

/// One GPU.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) uuid: String,
    pub(crate) name: String,
    pub(crate) serial: String,
    pub(crate) pci: PciAddress,
    /// Energy at the start, mJ; the integral of power comes on top.
    pub(crate) energy_mj: u64,
    pub(crate) processes: Vec<Process>,
    /// (sequence number, XID), each delivered once.
    pub(crate) xids: Vec<(u64, u64)>,
    pub(crate) faults: Faults,
    /// By [`Field`].
    values: Vec<Option<Profile>>,
}

/// Where a GPU sits on the bus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PciAddress {
    pub(crate) domain: u32,
    pub(crate) bus: u32,
    pub(crate) device: u32,
}

/// A process that holds a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Bytes, or [`NOT_AVAILABLE`].
    pub(crate) memory: u64,
    pub(crate) gpu_instance: u32,
    pub(crate) compute_instance: u32,
}

impl Script {
    /// Reads a whole file; the error begins with the number of its line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut lines = Vec::new();
        let mut seen = HashSet::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            if !seen.insert(key) {
                return Err(format!("{number}: `{key}` a second time"));
            }
            lines.push((number, key, value.trim()));
        }
        let mut script = Self {
            driver: "550.54.15".into(),
            nvml: "12.550.54.15".into(),
            cuda: 12_040,
            epoch_us: None,
            generation: 0,
            faults: Faults::default(),
            devices: vec![Device::numbered(0)],
        };
        // `count` decides which device lines are possible, wherever it stands.
        lines.sort_by_key(|(_, key, _)| *key != "count");
        for (number, key, value) in lines {
            script
                .set(key, value)
                .map_err(|why| format!("{number}: {why}"))?;
        }
        Ok(script)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        if value.is_empty() {
            return Err(format!("`{key}` has no value"));
        }
        let (head, rest) = key.split_once('.').unwrap_or((key, ""));
        if let Ok(index) = head.parse::<usize>() {
            let count = self.devices.len();
            let device = self.devices.get_mut(index);
            let device = device.ok_or_else(|| format!("device {index}, but count is {count}"))?;
            device.set(rest, value)?;
            let same = self.devices.iter().filter(|device| device.uuid == value);
            if rest == "uuid" && same.count() > 1 {
                return Err(format!("`{value}` is another device's UUID"));
            }
            return Ok(());
        }
        if self.faults.set(key, value)? {
            return Ok(());
        }
        match key {
            "count" => {
                let count: usize = whole(value)?;
                if count > MAX_DEVICES {
                    return Err(format!("more than {MAX_DEVICES} devices"));
                }
                self.devices = (0..count).map(Device::numbered).collect();
            }
            "driver" => self.driver = value.into(),
            "nvml" => self.nvml = value.into(),
            "cuda" => self.cuda = whole(value)?,
            "epoch" => self.epoch_us = Some((seconds(value)? * 1e6) as u64),
            "generation" => self.generation = whole(value)?,
            _ => return Err(format!("unknown key `{key}`")),
        }
        Ok(())
    }
}

impl Device {
    fn numbered(index: usize) -> Self {
        Self {
            uuid: format!("GPU-fa4e0000-0000-4000-8000-{index:012x}"),
            name: "NVIDIA H100 80GB HBM3".into(),
            serial: format!("16500000{index:05}"),
            pci: PciAddress {
                domain: 0,
                bus: 0x10 + index as u32,
                device: 0,
            },
            energy_mj: 0,
            processes: Vec::new(),
            xids: Vec::new(),
            faults: Faults::default(),
            values: FIELDS
                .iter()
                .map(|spec| spec.default.map(Profile::constant))
                .collect(),
        }
    }

    /// The profile of a field; `None` if this device has no such thing.
    pub(crate) fn value(&self, field: Field) -> Option<&Profile> {
        self.values[field as usize].as_ref()
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        if self.faults.set(key, value)? {
            return Ok(());
        }
        if let Some(index) = FIELDS.iter().position(|spec| spec.name == key) {
            let profile = Profile::parse(value, |word| FIELDS[index].parse(word));
            self.values[index] = Some(profile.map_err(|why| format!("`{key}`: {why}"))?);
            return Ok(());
        }
        match key {
            "uuid" => self.uuid = value.into(),
            "name" => self.name = value.into(),
            "serial" => self.serial = value.into(),
            "pci" => {
                self.pci = PciAddress::parse(value)
                    .ok_or_else(|| format!("`{value}` is no PCI address like 00000000:18:00.0"))?;
            }
            "energy_mj" => self.energy_mj = whole(value)?,
            "procs" => self.processes = list(value, Process::parse)?,
            "xid" => self.xids = list(value, sequence_and_xid)?,
            _ => return Err(format!("unknown device key `{key}`")),
        }
        Ok(())
    }
}

impl Faults {
    /// Takes `ret`, `ret.FUNCTION`, `hang` and `hang.FUNCTION`; says whether the key was one.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        let (kind, function) = key.split_once('.').unwrap_or((key, ""));
        if !["ret", "hang"].contains(&kind) {
            return Ok(false);
        }
        if key.contains('.') && !crate::functions().any(|known| known == function) {
            return Err(format!("`{function}` is no function of this library"));
        }
        if kind == "ret" {
            self.returns.insert(function.into(), whole(value)?);
        } else {
            let hang = match value {
                "forever" => Hang::Forever,
                _ => Hang::Milliseconds(whole(value)?),
            };
            self.hangs.insert(function.into(), hang);
        }
        Ok(true)
    }

    /// The code to return instead of an answer. That of the whole device or library spares the
    /// calls that only clean up.
    pub(crate) fn forced(&self, function: &str) -> Option<Return> {
        let cleans_up = ["nvmlShutdown", "nvmlEventSetFree"].contains(&function);
        let whole = || self.returns.get("").filter(|_| !cleans_up);
        self.returns.get(function).or_else(whole).copied()
    }

    /// How long to hang before anything else.
    pub(crate) fn hang(&self, function: &str) -> Option<Hang> {
        self.hangs
            .get(function)
            .or_else(|| self.hangs.get(""))
            .copied()
    }
}

impl PciAddress {
    /// `DOMAIN:BUS:DEVICE.FUNCTION` in hexadecimal; the domain has 4 or 8 digits, or is left out.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let hex = |digits: &str| u32::from_str_radix(digits, 16).ok();
        let (address, function) = text.rsplit_once('.')?;
        let mut parts = address.rsplit(':');
        let device = hex(parts.next()?)?;
        let bus = hex(parts.next()?)?;
        let domain = parts.next().map_or(Some(0), hex)?;
        let fits = hex(function)? == 0 && device < 0x20 && bus < 0x100 && parts.next().is_none();
        fits.then_some(Self {
            domain,
            bus,
            device,
        })
    }
}

impl Process {
    /// `PID:BYTES` or `PID:BYTES:GPU_INSTANCE:COMPUTE_INSTANCE`; `-` for bytes is "not available".
    fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let (pid, memory, instances) = match parts[..] {
            [pid, memory] => (pid, memory, None),
            [pid, memory, gpu, compute] => (pid, memory, Some((gpu, compute))),
            _ => return Err(format!("`{text}` is not PID:BYTES or PID:BYTES:GI:CI")),
        };
        let memory = if memory == "-" {
            NOT_AVAILABLE
        } else {
            whole(memory)?
        };
        let (gpu_instance, compute_instance) = match instances {
            Some((gpu, compute)) => (whole(gpu)?, whole(compute)?),
            None => (NO_INSTANCE, NO_INSTANCE),
        };
        Ok(Self {
            pid: whole(pid)?,
            memory,
            gpu_instance,
            compute_instance,
        })
    }
}

fn sequence_and_xid(text: &str) -> Result<(u64, u64), String> {
    let (sequence, xid) = text
        .split_once(':')
        .ok_or_else(|| format!("`{text}` is not SEQUENCE:XID"))?;
    match whole(sequence)? {
        0 => Err("sequence numbers begin with 1".into()),
        sequence => Ok((sequence, whole(xid)?)),
    }
}

/// Items joined by commas, or `none`.
fn list<T>(text: &str, item: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    if text == "none" {
        return Ok(Vec::new());
    }
    text.split(',').map(|word| item(word.trim())).collect()
}

fn whole<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a whole number in range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wrong_line_is_told_by_number() {
        for (text, why) in [
            ("count 2\n\n2.util 5", "3: device 2, but count is 2"),
            ("# a node\ncuont 2", "2: unknown key `cuont`"),
            ("0.util", "1: `0.util` has no value"),
            ("0.util 101", "1: `util`: 101 is more than 100"),
            (
                "0.util @0 5 @3 many",
                "1: `util`: `many` is not a whole number",
            ),
            ("0.utli 5", "1: unknown device key `utli`"),
            ("driver 1\ndriver 2", "2: `driver` a second time"),
            (
                "ret.nvmlDeviceGetUtil 3",
                "1: `nvmlDeviceGetUtil` is no function of this library",
            ),
            (
                "0.hang.nvmlDeviceGetName a",
                "1: `a` is not a whole number in range",
            ),
            (
                "0.throttle hot",
                "1: `throttle`: `hot` is no throttle reason",
            ),
            ("0.xid 79", "1: `79` is not SEQUENCE:XID"),
            ("0.xid 0:79", "1: sequence numbers begin with 1"),
            ("0.procs 7", "1: `7` is not PID:BYTES or PID:BYTES:GI:CI"),
            (
                "0.pci 18",
                "1: `18` is no PCI address like 00000000:18:00.0",
            ),
            (
                "count 2\n0.uuid A\n1.uuid A",
                "3: `A` is another device's UUID",
            ),
            ("count 65", "1: more than 64 devices"),
        ] {
            assert_eq!(Script::parse(text).unwrap_err(), why, "{text}");
        }
    }

    #[test]
    fn count_may_stand_anywhere_and_silence_has_defaults() {
        let script = Script::parse("1.throttle sw_power_cap,hw_slowdown\ncount 2").unwrap();
        let throttle = |index: usize| {
            script.devices[index]
                .value(Field::Throttle)
                .unwrap()
                .at(0.0)
        };
        assert_eq!((throttle(0), throttle(1)), (0, 0xc));
        assert!(script.devices[0].value(Field::FanPercent).is_none());
        assert_ne!(script.devices[0].uuid, script.devices[1].uuid);
        assert_eq!(Script::parse("").unwrap().devices.len(), 1);
        assert!(Script::parse("count 0").unwrap().devices.is_empty());
    }

    #[test]
    fn the_nearest_fault_wins_and_cleaning_up_is_spared() {
        let faults = Script::parse("ret 9\nret.nvmlInit_v2 18\nhang 5")
            .unwrap()
            .faults;
        assert_eq!(faults.forced("nvmlInit_v2"), Some(18));
        assert_eq!(faults.forced("nvmlDeviceGetCount_v2"), Some(9));
        assert_eq!(faults.forced("nvmlShutdown"), None);
        assert_eq!(faults.hang("nvmlShutdown"), Some(Hang::Milliseconds(5)));
    }

    #[test]
    fn a_bus_address_is_one_however_it_is_written() {
        let long = PciAddress::parse("00000000:3B:00.0");
        assert!(long.is_some());
        assert_eq!(long, PciAddress::parse("0000:3b:00.0"));
        assert_eq!(long, PciAddress::parse("3b:00.0"));
        assert_eq!(PciAddress::parse("0000:3b:00"), None);
    }
}
