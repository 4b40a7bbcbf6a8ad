//! From a process to its log, the way back of `writers`: the file that holds its stdout or stderr, directly or behind
//! the pipes of relays such as `tee`.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::table::{Table, slurp};
use super::text::Open;

/// So many relays may stand in a row.
const HOPS: usize = 4;

/// The regular file that the output of `pid` goes to; none if it goes to none. An error if that may not be seen.
pub fn log_of(root: &Path, pid: u32) -> io::Result<Option<PathBuf>> {
    let mut table = Table::new(root.to_owned());
    table.take(true).map_err(io::Error::other)?;
    if table.stat(pid).is_none() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut seen = HashSet::from([pid]);
    let mut at = vec![pid];
    for hop in 0..HOPS {
        let mut pipes = HashSet::new();
        for &pid in &at {
            // A relay writes its file under any number.
            let numbers = if hop == 0 {
                vec!["1".to_owned(), "2".to_owned()]
            } else {
                numbers(&table, pid)
            };
            for number in numbers {
                let link = match fs::read_link(table.path(pid, &format!("fd/{number}"))) {
                    Ok(link) => link,
                    Err(e) if hop == 0 && e.kind() == io::ErrorKind::PermissionDenied => {
                        return Err(e);
                    }
                    Err(_) => continue,
                };
                if link.to_string_lossy().starts_with("pipe:[") {
                    pipes.insert(link);
                } else if is_log(&table, pid, &number, &link) {
                    return Ok(Some(seen_from_here(&table, pid, link)));
                }
            }
        }
        at = table
            .pids()
            .filter(|pid| !seen.contains(pid))
            .filter(|&pid| {
                fs::read_link(table.path(pid, "fd/0")).is_ok_and(|link| pipes.contains(&link))
            })
            .collect();
        seen.extend(&at);
    }
    Ok(None)
}

fn numbers(table: &Table, pid: u32) -> Vec<String> {
    let entries = fs::read_dir(table.path(pid, "fd")).into_iter().flatten();
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// A file, open for writing, and no device.
fn is_log(table: &Table, pid: u32, number: &str, link: &Path) -> bool {
    if !link.is_absolute() || link.starts_with("/dev") || link.starts_with("/proc") {
        return false;
    }
    let info = slurp(
        &table.path(pid, &format!("fdinfo/{number}")),
        &mut Vec::new(),
    )
    .ok()
    .and_then(|text| Open::parse(&text));
    info.is_some_and(|open| open.writes)
}

/// A container's path, where it is no path of ours.
fn seen_from_here(table: &Table, pid: u32, link: PathBuf) -> PathBuf {
    let inside = link.strip_prefix("/").unwrap_or(&link);
    let through = table.path(pid, "root").join(inside);
    if !link.exists() && through.exists() {
        through
    } else {
        link
    }
}
