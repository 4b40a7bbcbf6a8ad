//! The door under attack, and by its rules: the real program on a real socket.
//!
//! `toolkit` holds the web configuration file to what exporter-toolkit documents, `slow` and `big` are bad clients,
//! `names` are words that would break out of a label or of the page, `files` are logs that are no files.

#![expect(clippy::disallowed_methods, reason = "it starts programs and waits")]

#[path = "door/big.rs"]
mod big;
#[path = "door/files.rs"]
mod files;
#[path = "door/names.rs"]
mod names;
#[path = "door/slow.rs"]
mod slow;
#[path = "door/stage.rs"]
mod stage;
mod support;
#[path = "door/toolkit.rs"]
mod toolkit;
