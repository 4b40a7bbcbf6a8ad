//! The numbers of a device: one entry per scenario line `N.NAME`, with its unit, its bounds and what
//! holds when the scenario is silent (an idle H100 with 80 GB). Each may vary over time.

/// How a field's value is written.
pub(crate) enum Syntax {
    /// A whole number up to this one.
    UpTo(u64),
    /// `none`, or names of [`THROTTLE_REASONS`] joined by commas.
    Throttle,
}

/// One entry of [`FIELDS`].
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    /// `None`: the device answers NOT_SUPPORTED until the scenario gives a value.
    pub(crate) default: Option<u64>,
    pub(crate) syntax: Syntax,
}

macro_rules! fields {
    ($($(#[$meta:meta])* $id:ident $name:literal $default:expr, $syntax:expr;)*) => {
        /// A number of a device; the index into [`FIELDS`].
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Field { $($(#[$meta])* $id,)* }

        /// What the scenario may say of each [`Field`].
        pub(crate) const FIELDS: &[Spec] =
            &[$(Spec { name: $name, default: $default, syntax: $syntax },)*];
    };
}

use Syntax::{Throttle, UpTo};
const ANY: Syntax = UpTo(u64::MAX);
const INT: Syntax = UpTo(u32::MAX as u64);
const PERCENT: Syntax = UpTo(100);
const SWITCH: Syntax = UpTo(1);

fields! {
    /// Share of time in which a kernel ran, percent.
    Util "util" Some(0), PERCENT;
    /// Share of time in which memory was read or written, percent.
    MemUtil "mem_util" Some(0), PERCENT;
    /// Board power, mW; its integral is the energy counter.
    PowerMw "power_mw" Some(70_000), INT;
    /// Enforced power limit, mW.
    PowerLimitMw "power_limit_mw" Some(700_000), INT;
    /// Least power limit that may be set, mW.
    PowerMinMw "power_min_mw" Some(200_000), INT;
    /// Greatest and default power limit, mW.
    PowerMaxMw "power_max_mw" Some(700_000), INT;
    /// Device memory, bytes.
    MemoryTotal "memory_total" Some(85_520_809_984), ANY;
    /// Memory of processes, bytes.
    MemoryUsed "memory_used" Some(0), ANY;
    /// Memory that the driver keeps, bytes; the first version of the call counts it as used.
    MemoryReserved "memory_reserved" Some(0), ANY;
    /// Core temperature, degrees Celsius.
    Temperature "temperature" Some(35), INT;
    /// Fan speed, percent; passive boards have none.
    FanPercent "fan_percent" None, PERCENT;
    /// Clock of the SMs, and of graphics and video too, MHz.
    SmClockMhz "sm_clock_mhz" Some(345), INT;
    /// Its greatest value, MHz.
    MaxSmClockMhz "max_sm_clock_mhz" Some(1_980), INT;
    /// Memory clock, now and at most, MHz.
    MemClockMhz "mem_clock_mhz" Some(2_619), INT;
    /// Performance state: 0 fastest to 15.
    Pstate "pstate" Some(0), UpTo(15);
    /// Why clocks are held down: a mask of reasons.
    Throttle "throttle" Some(0), Throttle;
    /// MIG mode, now and after a reset.
    Mig "mig" Some(0), SWITCH;
    /// Persistence mode.
    Persistence "persistence" Some(1), SWITCH;
    /// Compute mode: 0 default, 2 prohibited, 3 one process.
    ComputeMode "compute_mode" Some(0), UpTo(3);
    /// ECC, now and after a reset.
    Ecc "ecc" Some(1), SWITCH;
    /// Corrected memory errors, whichever counter is asked.
    EccCorrected "ecc_corrected" Some(0), ANY;
    /// Uncorrected memory errors, whichever counter is asked.
    EccUncorrected "ecc_uncorrected" Some(0), ANY;
    /// PCIe bytes received, kB/s.
    PcieRx "pcie_rx_kbs" Some(0), INT;
    /// PCIe bytes sent, kB/s.
    PcieTx "pcie_tx_kbs" Some(0), INT;
    /// Event types that may be registered: a mask; 8 is XID.
    EventTypes "event_types" Some(0x1f), ANY;
    /// Time between two samples of the driver's buffer, ms.
    SampleMs "sample_ms" Some(100), UpTo(60_000);
    /// Length of that buffer, samples.
    SampleCount "sample_count" Some(120), UpTo(10_000);
}

/// The names of `nvmlClocksThrottleReasons`, with their bits.
pub(crate) const THROTTLE_REASONS: &[(&str, u64)] = &[
    ("gpu_idle", 0x1),
    ("applications_clocks_setting", 0x2),
    ("sw_power_cap", 0x4),
    ("hw_slowdown", 0x8),
    ("sync_boost", 0x10),
    ("sw_thermal_slowdown", 0x20),
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake_slowdown", 0x80),
    ("display_clock_setting", 0x100),
];

impl Spec {
    /// One value of this field.
    pub(crate) fn parse(&self, text: &str) -> Result<u64, String> {
        match self.syntax {
            UpTo(max) => {
                let value = text
                    .parse()
                    .map_err(|_| format!("`{text}` is not a whole number"))?;
                if value > max {
                    return Err(format!("{value} is more than {max}"));
                }
                Ok(value)
            }
            Throttle if text == "none" => Ok(0),
            Throttle => text.split(',').try_fold(0, |mask, name| {
                let reason = THROTTLE_REASONS.iter().find(|(known, _)| *known == name);
                let (_, bit) = reason.ok_or_else(|| format!("`{name}` is no throttle reason"))?;
                Ok(mask | bit)
            }),
        }
    }
}
