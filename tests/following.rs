//! Logs as the whole exporter follows them: real files, real rotations, real limits of the kernel, and file systems
//! that never answer.

#![expect(clippy::disallowed_methods, reason = "it starts programs and waits")]
#![expect(
    clippy::print_stderr,
    reason = "says what it could not show, and what it measured"
)]

#[path = "following/dead.rs"]
mod dead;
#[path = "following/dying.rs"]
mod dying;
#[path = "following/limits.rs"]
mod limits;
#[path = "following/many.rs"]
mod many;
#[path = "following/reload.rs"]
mod reload;
#[path = "following/rotated.rs"]
mod rotated;
#[path = "following/stage.rs"]
mod stage;
mod support;
