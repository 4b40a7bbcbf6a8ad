//! What a training log says: bytes -> lines -> observations.
//!
//! `follow` turns one path into a stream of bytes, whatever happens to the file; `lines` turns any chunks of bytes into
//! whole lines; `preset` turns a line into observations. None of them knows a run, a clock or a thread.

pub mod ansi;
pub mod blocks;
mod envelope;
pub mod follow;
pub mod lines;
pub mod listener;
mod pattern;
pub mod preset;
pub mod reader;
mod sieve;
mod traceback;
