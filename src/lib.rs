//! The architecture comes here.

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
