//! training-exporter: is this training working, validating, or hung?
//!
//! # Bird's-eye view
//!
//! Four witnesses on one node, one fold for each run, one page:
//!
//! ```text
//!  log bytes --> lines --> observations --+
//!  files opened in the data folder -------+--> Job (phase, numbers, two clocks) --> verdict
//!  counters of ranks and workers ---------+          |                                |
//!  utilisation and power of GPUs ---------+          +--> /metrics --> alert rules    +--> status page
//! ```
//!
//! A run is a fold: [`job::Job::apply`] takes one [`job::observation::Observation`] and a time, and nothing else
//! decides what a run is doing. Two clocks say how long it has stood still: P is marked by progress in its numbers, Q
//! by work of its processes and GPUs. [`job::verdict::judge`] turns both, and what else is known, into one word. The
//! alert rules in `alerts/` reach the same word for the whole fleet, from the same facts as series.
//!
//! # Where to begin
//!
//! - a log line that is misread: [`log`], `src/presets/`, and `training-exporter replay`
//! - a metric: the rows in [`job::metrics`], [`state::metrics`], [`node::gpu`], [`node::process`]
//! - a wrong verdict: [`job::verdict`] and `alerts/recording.rules.yml`
//! - a thread: [`run`]; a request: [`web`]; a command: [`cli`]
//!
//! # Invariants
//!
//! - Modules import only to their left: `metric < job < log < config < node < state < scenario < run < web < cli`.
//!   `tests/layers.rs` holds it.
//! - `metric`, `job`, `log::lines`, `log::preset`, `state` and `web::page` know no file, clock or thread, and cannot
//!   fail. Time is an argument everywhere; `.clippy.toml` holds it.
//! - A scrape touches neither driver, `/proc` nor file: it renders one snapshot of [`state::State`].
//! - Unknown is absent: a failed reading leaves no data, so that a stale value is never shown as live.
//! - The exporter never disturbs a training: it opens for reading only, sends no signal, and waits for nobody.

pub mod cli;
pub mod config;
pub mod job;
pub mod log;
pub mod metric;
pub mod node;
pub mod run;
pub mod scenario;
pub mod state;
pub mod web;
