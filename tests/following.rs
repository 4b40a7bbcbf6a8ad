//! Logs as the whole exporter follows them: real files, real rotations, real limits of the kernel, and file systems
//! that never answer.

#![expect(clippy::disallowed_methods, reason = "it starts programs and waits")]

#[path = "following/rotated.rs"]
mod rotated;
#[path = "following/stage.rs"]
mod stage;
mod support;
