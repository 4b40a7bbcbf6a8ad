//! For tests that call the exported functions directly: one scenario per process, so each test holds
//! the stage while it plays.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fake_nvml::types::{Handle, code};
use fake_nvml::*;

/// A scenario in force, and the right to change it.
pub struct Stage {
    pub scenario: Scenario,
    _alone: MutexGuard<'static, ()>,
}

impl Stage {
    pub fn set(name: &str, lines: &[(&str, &str)]) -> Self {
        static STAGE: Mutex<()> = Mutex::new(());
        let alone = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let mut stage = Self {
            scenario: Scenario::new(path),
            _alone: alone,
        };
        stage.change(lines);
        use_scenario(stage.scenario.path());
        assert_eq!(nvmlInit_v2(), code::SUCCESS);
        stage
    }

    pub fn change(&mut self, lines: &[(&str, &str)]) {
        for (key, value) in lines {
            self.scenario.set(key, value);
        }
        self.scenario.write().unwrap();
    }
}

pub fn handle(index: u32) -> Handle {
    let mut device = Handle::NULL;
    assert_eq!(
        nvmlDeviceGetHandleByIndex_v2(index, Some(&mut device)),
        code::SUCCESS
    );
    device
}

/// The answer of a call with one out-parameter, or the code it failed with.
pub fn ask<T: Default>(call: impl FnOnce(Option<&mut T>) -> u32) -> Result<T, u32> {
    let mut answer = T::default();
    match call(Some(&mut answer)) {
        code::SUCCESS => Ok(answer),
        why => Err(why),
    }
}

pub fn power(device: Handle) -> Result<u32, u32> {
    ask(|to| nvmlDeviceGetPowerUsage(device, to))
}

pub fn energy(device: Handle) -> u64 {
    ask(|to| nvmlDeviceGetTotalEnergyConsumption(device, to)).unwrap()
}
