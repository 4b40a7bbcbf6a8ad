//! A node of a test: a driver of its own, whose scenario the test changes, and a reader of it.

use fake_nvml::Fake;
use tempfile::TempDir;
use training_exporter::node::gpu::Gpu;
use training_exporter::node::nvml::Nvml;

/// A driver of its own, and a reader of it.
pub(crate) struct Node {
    pub(crate) nvml: Nvml,
    pub(crate) fake: Fake,
    pub(crate) folder: TempDir,
}

impl Node {
    pub(crate) fn new(lines: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let fake = Fake::install(folder.path()).expect("the fake is built");
        let mut node = Self {
            nvml: Nvml::new(Some(&fake.library)),
            fake,
            folder,
        };
        node.set(lines);
        node
    }

    /// Sets lines of the scenario; `default` takes one back.
    pub(crate) fn set(&mut self, lines: &[(&str, &str)]) {
        for (key, value) in lines {
            if *value == "default" {
                self.fake.scenario.remove(key);
            } else {
                self.fake.scenario.set(key, value);
            }
        }
        self.fake.scenario.write().expect("written");
    }

    pub(crate) fn look(&mut self, now: f64) -> Vec<Gpu> {
        self.nvml.look(now).expect("GPUs")
    }
}

/// Two boards that differ in everything; nothing changes with time, but for the energy of the second.
pub(crate) const TWO: &[(&str, &str)] = &[
    ("count", "2"),
    ("driver", "550.54.15"),
    ("0.uuid", "GPU-A"),
    ("0.pci", "00000000:18:00.0"),
    ("0.util", "97"),
    ("0.energy_mj", "5000000"),
    ("0.power_mw", "0"),
    ("0.power_limit_mw", "700000"),
    ("0.memory_total", "85899345920"),
    ("0.memory_used", "4294967296"),
    ("0.temperature", "64"),
    ("0.sm_clock_mhz", "1980"),
    ("0.throttle", "sw_power_cap,hw_slowdown"),
    ("0.procs", "4711:1024,815:-"),
    ("1.uuid", "GPU-B"),
    ("1.name", "NVIDIA A30"),
    ("1.mig", "1"),
    ("1.power_mw", "250000"),
    ("1.throttle", "gpu_idle"),
];
