//! What the machine itself says about a run: its GPUs, its processes, the files it opens.
//!
//! Each source stands behind a narrow trait, so that the very same threads run on a simulated node (`scenario`).
//! Classifications are pure: counters in, a word out.

pub mod data;
pub mod gpu;
pub mod nvml;
pub mod process;
pub mod procfs;
