//! One GPU, asked field by field: what the driver refuses is absent.

use std::collections::BTreeMap;

use nvml_wrapper::enum_wrappers::device::{Clock, Sampling, TemperatureSensor};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};

use super::busy::Busy;
use crate::job::Unix;
use crate::node::gpu::Gpu;

/// Why a whole GPU cannot be read.
pub(super) enum Trouble {
    /// It fell off the bus.
    Lost,
    /// The driver has forgotten us, as after a reload: the library must be opened again.
    Stale(String),
    /// The driver does not want to.
    Refused(String),
}

impl Trouble {
    fn of(error: &NvmlError) -> Self {
        if matches!(error, NvmlError::GpuLost) {
            Self::Lost
        } else if matches!(
            error,
            NvmlError::Uninitialized | NvmlError::DriverNotLoaded | NvmlError::LibRmVersionMismatch
        ) {
            Self::Stale(error.to_string())
        } else {
            Self::Refused(error.to_string())
        }
    }
}

/// Takes answers, and remembers the trouble that concerns more than one field.
#[derive(Default)]
struct Asked(Option<Trouble>);

impl Asked {
    fn take<T>(&mut self, answer: Result<T, NvmlError>) -> Option<T> {
        match answer.as_ref().map_err(Trouble::of) {
            Ok(_) | Err(Trouble::Refused(_)) => {}
            Err(grave @ (Trouble::Lost | Trouble::Stale(_))) => self.0 = Some(grave),
        }
        answer.ok()
    }

    /// The same for a number, in thousands or thousandths of our unit.
    fn number(&mut self, answer: Result<u32, NvmlError>, unit: f64) -> Option<f64> {
        self.take(answer).map(|value| f64::from(value) * unit)
    }
}

/// What the driver says of the GPU at `index`, but for its version.
pub(super) fn read(
    nvml: &Nvml,
    index: u32,
    busy: &mut BTreeMap<String, Busy>,
    now: Unix,
) -> Result<Gpu, Trouble> {
    let device = nvml.device_by_index(index).map_err(|e| Trouble::of(&e))?;
    let mut asked = Asked::default();
    let pci = asked.take(device.pci_info());
    let pci_bus_id = pci.map(|pci| pci.bus_id).unwrap_or_default();
    let uuid = identity(&device, index, &pci_bus_id)?;
    let busy = busy.entry(uuid.clone()).or_default();
    let (util, util_source) = utilisation(&device, &mut asked, busy, now);
    let memory = asked.take(device.memory_info());
    let mig = asked.take(device.mig_mode()).map(|mig| mig.current);
    let gpu = Gpu {
        index,
        uuid,
        up: true,
        name: asked.take(device.name()).unwrap_or_default(),
        pci_bus_id,
        mig_mode: mig
            .map_or("", |mig| if mig == 1 { "enabled" } else { "disabled" })
            .to_owned(),
        util_source: util_source.to_owned(),
        util,
        busy_seconds: util.map(|_| busy.seconds),
        energy_joules: asked
            .take(device.total_energy_consumption())
            .map(|millijoules| millijoules as f64 / 1e3),
        power_watts: asked.number(device.power_usage(), 1e-3),
        power_limit_watts: asked.number(device.enforced_power_limit(), 1e-3),
        memory_used_bytes: memory.as_ref().map(|memory| memory.used as f64),
        memory_capacity_bytes: memory.as_ref().map(|memory| memory.total as f64),
        temperature_celsius: asked.number(device.temperature(TemperatureSensor::Gpu), 1.0),
        sm_clock_hertz: asked.number(device.clock_info(Clock::SM), 1e6),
        throttle: asked
            .take(device.current_throttle_reasons())
            .map(|reasons| reasons.bits()),
        pids: pids(&device, &mut asked),
        ..Gpu::default()
    };
    asked.0.map_or(Ok(gpu), Err)
}

/// The UUID. Only a driver that never tells it makes the PCI address, or the index, an identity: one that is silent just
/// now must not turn a known board into a new one.
fn identity(device: &Device<'_>, index: u32, pci_bus_id: &str) -> Result<String, Trouble> {
    match device.uuid() {
        Ok(uuid) => Ok(uuid),
        Err(
            NvmlError::FailedToLoadSymbol(_)
            | NvmlError::FunctionNotFound
            | NvmlError::NotSupported,
        ) => Ok(if pci_bus_id.is_empty() {
            format!("index-{index}")
        } else {
            pci_bus_id.to_owned()
        }),
        Err(e) => Err(Trouble::of(&e)),
    }
}

/// Utilisation of the last second, 0 to 1, and where it comes from.
fn utilisation(
    device: &Device<'_>,
    asked: &mut Asked,
    busy: &mut Busy,
    now: Unix,
) -> (Option<f64>, &'static str) {
    let samples = match device.samples(Sampling::GpuUtilization, busy.seen()) {
        // Nothing newer than what was seen.
        Err(NvmlError::NotFound) => Some(Vec::new()),
        answer => asked.take(answer),
    };
    let sampled = samples.and_then(|samples| {
        let newer = samples
            .iter()
            .map(|s| (s.timestamp, percent(&s.value) / 100.0));
        busy.sampled(newer.collect(), now)
    });
    if sampled.is_some() {
        return (sampled, "samples");
    }
    let rates = asked.take(device.utilization_rates());
    let polled = rates.map(|rates| busy.polled(f64::from(rates.gpu) / 100.0, now));
    (polled, if polled.is_some() { "polled" } else { "" })
}

fn percent(value: &SampleValue) -> f64 {
    match *value {
        SampleValue::F64(value) => value,
        SampleValue::U32(value) => f64::from(value),
        SampleValue::U64(value) => value as f64,
        SampleValue::I64(value) => value as f64,
    }
}

/// The processes with a context for computing or drawing. A driver that lists only the first kind is believed.
fn pids(device: &Device<'_>, asked: &mut Asked) -> Option<Vec<u32>> {
    let again = |ask: &dyn Fn() -> Result<Vec<ProcessInfo>, NvmlError>| match ask() {
        // More have begun than there was room for.
        Err(NvmlError::InsufficientSize(_)) => ask(),
        answer => answer,
    };
    let computing = asked.take(again(&|| device.running_compute_processes()));
    let drawing = asked.take(again(&|| device.running_graphics_processes()));
    let mut pids: Vec<u32> = computing?
        .into_iter()
        .chain(drawing.unwrap_or_default())
        .map(|process| process.pid)
        .collect();
    pids.sort_unstable();
    pids.dedup();
    Some(pids)
}
