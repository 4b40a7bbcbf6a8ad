//! One GPU: what its driver says, what state that is, and its rows.
//!
//! The state is relative to what this very board draws: idle when nothing runs, and while its run advanced. Utilisation
//! alone says nothing, since a collective that waits shows 100 % at nearly idle power. Pure, but for the trait's impls.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::job::Unix;
use crate::metric::{Metric, counter, counters, gauge, gauges};

/// Where GPUs are read from: the driver, or a simulated node.
pub trait Gpus: Send {
    /// All GPUs now. A GPU that cannot be read is in the list, with `up` false; an error means that none could.
    fn read(&mut self) -> anyhow::Result<Vec<Gpu>>;

    /// When the driver gave what was read last, where that was not just now. A reading may be given twice.
    fn read_at(&self) -> Option<Unix> {
        None
    }

    /// For how many seconds the driver has not answered: 0 while it does, none where that cannot be said.
    fn blocked_seconds(&self) -> Option<f64> {
        None
    }
}

/// How the reason begins where there is nothing to read and that is no fault.
pub const NONE: &str = "no NVIDIA GPUs on this node";

/// What the driver says of one GPU; what it does not say is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpu {
    /// NVML's index; may change over a driver reload.
    pub index: u32,
    /// The board's identity: its UUID. Where the driver has no such call its PCI address, else `index-N`.
    pub uuid: String,
    /// False for a GPU that was there and cannot be read any more.
    pub up: bool,
    /// Product name.
    pub name: String,
    /// PCI address.
    pub pci_bus_id: String,
    /// Driver version.
    pub driver_version: String,
    /// `enabled` or `disabled`; empty where the board has no MIG.
    pub mig_mode: String,
    /// `samples` (the driver's buffer) or `polled`.
    pub util_source: String,
    /// Mean utilisation of the last second, 0 to 1.
    pub util: Option<f64>,
    /// Utilisation integrated over time, in seconds.
    pub busy_seconds: Option<f64>,
    /// Energy since the driver was loaded, in joules.
    pub energy_joules: Option<f64>,
    /// Watts drawn now.
    pub power_watts: Option<f64>,
    /// Enforced limit in watts.
    pub power_limit_watts: Option<f64>,
    /// Bytes of device memory in use.
    pub memory_used_bytes: Option<f64>,
    /// Bytes of device memory.
    pub memory_capacity_bytes: Option<f64>,
    /// Degrees Celsius.
    pub temperature_celsius: Option<f64>,
    /// Hertz of the SM clock.
    pub sm_clock_hertz: Option<f64>,
    /// What holds the clocks down now, as bits of `THROTTLE`.
    pub throttle: Option<u64>,
    /// Processes that hold a context on it; absent where the driver does not tell.
    pub pids: Option<Vec<u32>>,
    /// Errors that the driver reported since the exporter started, by XID. Kept for a GPU that is lost.
    pub xids: BTreeMap<u64, Xid>,
    /// Its state, decided by `Baselines`.
    #[serde(skip)]
    pub state: GpuState,
}

/// How often the driver has reported one XID for one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Xid {
    /// Reports.
    pub count: u64,
    /// When the newest one was seen.
    pub last: Unix,
}

/// What can hold the clocks down: NVML's bits (`nvmlClocksThrottleReason*` in nvml.h) and their label values. The bit of
/// an idle GPU is not among them: that is no throttling.
pub const THROTTLE: [(u64, &str); 8] = [
    (0x2, "applications_clocks_setting"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal_slowdown"),
    (0x40, "hw_thermal_slowdown"),
    (0x80, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
];

/// What a GPU is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpuState {
    /// Neither busy nor drawing power.
    Idle,
    /// It draws about what it drew while its run advanced.
    Working,
    /// Busy at nearly idle power: kernels of a collective wait.
    Spinning,
    /// None of these can be said.
    #[default]
    Unknown,
}

impl GpuState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Working, Self::Spinning, Self::Unknown];

    /// The label value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Spinning => "spinning",
            Self::Unknown => "unknown",
        }
    }
}

/// The labels of every GPU series.
pub const LABELS: &[&str] = &["gpu", "uuid"];

/// The rows of a GPU.
pub const METRICS: &[Metric<Gpu>] = &[
    gauge(
        "training_gpu_up",
        "1 if the driver answers for this GPU, 0 for one that was there and is lost.",
        |gpu| Some(f64::from(u8::from(gpu.up))),
    ),
    gauges(
        "training_gpu_info",
        "What this GPU is; always 1.",
        &[
            "name",
            "pci_bus_id",
            "driver_version",
            "mig_mode",
            "util_source",
        ],
        |gpu, out| {
            out.add(
                [
                    &gpu.name,
                    &gpu.pci_bus_id,
                    &gpu.driver_version,
                    &gpu.mig_mode,
                    &gpu.util_source,
                ],
                1.0,
            );
        },
    ),
    gauge(
        "training_gpu_util_ratio",
        "Mean of the driver's utilisation samples of the last second, 0 to 1. For people; rules use the busy seconds.",
        |gpu| gpu.util,
    ),
    counter(
        "training_gpu_busy_seconds_total",
        "Utilisation integrated over time, in seconds, since the exporter started: its rate has no aliasing.",
        |gpu| gpu.busy_seconds,
    ),
    counter(
        "training_gpu_energy_joules_total",
        "Energy since the driver was loaded, kept monotonic over reloads. Absent before Volta.",
        |gpu| gpu.energy_joules,
    ),
    gauge("training_gpu_power_watts", "Power drawn now.", |gpu| {
        gpu.power_watts
    }),
    gauge(
        "training_gpu_power_limit_watts",
        "Enforced power limit.",
        |gpu| gpu.power_limit_watts,
    ),
    gauge(
        "training_gpu_memory_used_bytes",
        "Device memory in use.",
        |gpu| gpu.memory_used_bytes,
    ),
    gauge(
        "training_gpu_memory_capacity_bytes",
        "Device memory.",
        |gpu| gpu.memory_capacity_bytes,
    ),
    gauge(
        "training_gpu_temperature_celsius",
        "Temperature of the GPU.",
        |gpu| gpu.temperature_celsius,
    ),
    gauge(
        "training_gpu_sm_clock_hertz",
        "Clock of the streaming multiprocessors.",
        |gpu| gpu.sm_clock_hertz,
    ),
    gauges(
        "training_gpu_throttled",
        "1 for each reason that holds the clocks down now, 0 for the others. Absent where the driver does not tell.",
        &["reason"],
        |gpu, out| {
            for (bit, reason) in THROTTLE.iter().filter(|_| gpu.throttle.is_some()) {
                let now = gpu.throttle.unwrap_or_default() & bit != 0;
                out.add([reason], f64::from(u8::from(now)));
            }
        },
    ),
    counters(
        "training_gpu_xid_errors_total",
        "Errors of this GPU that the driver reported since the exporter started, by XID. Absent before the first.",
        &["xid"],
        |gpu, out| {
            for (xid, seen) in &gpu.xids {
                out.add([&xid.to_string()], seen.count as f64);
            }
        },
    ),
    gauges(
        "training_gpu_xid_last_timestamp_seconds",
        "Unix time at which the newest error with this XID was reported.",
        &["xid"],
        |gpu, out| {
            for (xid, seen) in &gpu.xids {
                out.add([&xid.to_string()], seen.last);
            }
        },
    ),
    gauges(
        "training_gpu_state",
        "1 for the state of the GPU, 0 for the others: relative to what this board draws idle, and drew while its run advanced.",
        &["state"],
        |gpu, out| {
            if gpu.up {
                out.one_of(GpuState::ALL.map(GpuState::name), gpu.state.name());
            }
        },
    ),
];

/// What each board draws, learned while it is watched.
#[derive(Debug, Default)]
pub struct Baselines(BTreeMap<String, Baseline>);

#[derive(Debug, Default)]
struct Baseline {
    /// The least power at no utilisation, in watts.
    idle: Option<f64>,
    /// A slow mean of the power while the run advanced in training, in watts.
    active: Option<f64>,
    /// Energy and time of the look before.
    energy: Option<(f64, Unix)>,
    /// What was said then.
    state: GpuState,
}

/// Idle power over the limit, where the board has not been seen idle: 50 to 140 W of 700 were measured in waits.
const IDLE_OF_LIMIT: f64 = 0.15;
/// Working power over the limit, where no run has been seen to advance.
const ACTIVE_OF_LIMIT: f64 = 0.55;
/// From this share of the way from idle to active on, a board works.
const WORKING: f64 = 0.4;
/// Busy from here on, idle up to there.
const BUSY: f64 = 0.9;
const NOT_BUSY: f64 = 0.1;
/// Weight of the newest look in the mean of active power.
const NEWEST: f64 = 0.05;

impl Baselines {
    /// The state of `gpu` at `now`, when it was read; `advancing` tells that its one run makes progress in training.
    pub fn state(&mut self, gpu: &Gpu, advancing: bool, now: Unix) -> GpuState {
        let known = self.0.entry(gpu.uuid.clone()).or_default();
        // The same reading once more: no time has passed in which it could draw anything.
        let again = gpu.energy_joules.map(|energy| (energy, now));
        if again.is_none() || again != known.energy {
            known.state = known.judge(gpu, advancing, now);
        }
        known.state
    }
}

impl Baseline {
    fn judge(&mut self, gpu: &Gpu, advancing: bool, now: Unix) -> GpuState {
        let before = gpu
            .energy_joules
            .and_then(|energy| self.energy.replace((energy, now)));
        let rate = gpu
            .energy_joules
            .zip(before)
            .and_then(|(energy, (old, at))| {
                let seconds = now - at;
                (seconds > 0.0 && energy >= old).then(|| (energy - old) / seconds)
            });
        // MIG hides utilisation and shares power: nothing can be said.
        let (Some(util), Some(power)) = (gpu.util, rate.or(gpu.power_watts)) else {
            return GpuState::Unknown;
        };
        if util <= NOT_BUSY {
            self.idle = Some(self.idle.map_or(power, |idle| idle.min(power)));
        }
        if advancing && util > 0.5 {
            self.active = Some(
                self.active
                    .map_or(power, |active| active + NEWEST * (power - active)),
            );
        }
        let limit = gpu.power_limit_watts;
        let idle = self.idle.or(limit.map(|limit| IDLE_OF_LIMIT * limit));
        let active = self.active.or(limit.map(|limit| ACTIVE_OF_LIMIT * limit));
        let Some((idle, active)) = idle.zip(active).filter(|(idle, active)| active > idle) else {
            return GpuState::Unknown;
        };
        if power >= idle + WORKING * (active - idle) {
            GpuState::Working
        } else if util >= BUSY {
            GpuState::Spinning
        } else if util <= NOT_BUSY {
            GpuState::Idle
        } else {
            GpuState::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(util: f64, watts: f64) -> Gpu {
        Gpu {
            up: true,
            util: Some(util),
            power_watts: Some(watts),
            power_limit_watts: Some(700.0),
            ..Gpu::default()
        }
    }

    #[test]
    fn states_are_relative_to_the_board() {
        let mut fresh = Baselines::default();
        for (util, watts, state) in [
            (0.97, 600.0, GpuState::Working),
            (1.0, 110.0, GpuState::Spinning),
            (0.0, 80.0, GpuState::Idle),
            (0.5, 100.0, GpuState::Unknown),
        ] {
            assert_eq!(
                fresh.state(&gpu(util, watts), false, 0.0),
                state,
                "{util} {watts}"
            );
        }
        // A run that never draws much: what it drew while it advanced is its working power.
        let mut light = Baselines::default();
        light.state(&gpu(0.0, 60.0), false, 0.0);
        assert_eq!(light.state(&gpu(0.9, 150.0), true, 1.0), GpuState::Working);
        assert_eq!(light.state(&gpu(1.0, 70.0), false, 2.0), GpuState::Spinning);
    }

    #[test]
    fn without_power_or_utilisation_nothing_is_said() {
        let mut boards = Baselines::default();
        for field in [
            Gpu {
                power_watts: None,
                ..gpu(0.0, 0.0)
            },
            Gpu {
                util: None,
                ..gpu(0.0, 80.0)
            },
        ] {
            assert_eq!(boards.state(&field, false, 0.0), GpuState::Unknown);
        }
    }
}
