//! Megabytes for each second of CPU time: the way of a byte from the file to the run, beside line splitting alone and
//! beside mtail.

use std::fs;
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};
use training_exporter::job::Job;
use training_exporter::job::cadence::Limits;
use training_exporter::log::follow::{Follower, Gained};
use training_exporter::log::lines::Lines;
use training_exporter::log::reader::Presets;

use crate::{MB, mtail, repeated};

/// So much is read; mtail gets a tenth, which takes it longer.
const BYTES: usize = 210_000_000;

pub(crate) fn print(folder: &Path) {
    let presets = Presets::built_in();
    println!("{} presets loaded", presets.all().count());
    let logs = repeated(folder, BYTES);
    let (mut bytes, mut reading, mut splitting) = (0.0, 0.0, 0.0);
    let mut rows = Vec::new();
    for (name, path) in &logs {
        let size = fs::metadata(path).expect("there").len() as f64;
        // So that neither has to wait for the disk.
        let split = split(path);
        let read = read(path, &presets);
        bytes += size;
        reading += read;
        splitting += split;
        rows.push((size / MB / read, name));
        fs::remove_file(path).expect("ours");
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (speed, name) in &rows {
        println!("{speed:8.0} MB/s  {name}");
    }
    let ours = bytes / MB / reading;
    println!(
        "{ours:8.0} MB/s  all of them, {:.0} MB: Follower, Lines, Reader, Job",
        bytes / MB
    );
    let alone = bytes / MB / splitting;
    println!(
        "{alone:8.0} MB/s  Follower and line splitting alone, {:.0} times",
        alone / ours
    );
    if let Some(theirs) = mtail::speed(folder, BYTES / 10) {
        println!(
            "{theirs:8.2} MB/s  mtail; training-exporter reads {:.0} times as fast",
            ours / theirs
        );
    }
}

/// Seconds of CPU time that this thread has used.
fn used() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn split(path: &Path) -> f64 {
    let began = used();
    let mut lines = 0;
    follow(path, &mut |bytes| {
        lines += memchr::memchr2_iter(b'\n', b'\r', bytes).count()
    });
    assert!(lines > 0, "{}: no lines", path.display());
    used() - began
}

fn read(path: &Path, presets: &Presets) -> f64 {
    let began = used();
    let (mut lines, mut reader) = (Lines::default(), presets.reader(None));
    let mut job = Job::new(Limits::default());
    follow(path, &mut |bytes| {
        lines.push(bytes, &mut |line| {
            reader.read(&line, &mut |said| job.apply(said, 0.0))
        });
    });
    used() - began
}

fn follow(path: &Path, each: &mut dyn FnMut(&[u8])) {
    let mut follower = Follower::new(path);
    while follower
        .poll(&mut |gained| match gained {
            Gained::Bytes(bytes) => each(bytes),
            Gained::Rotated | Gained::Truncated => panic!("nobody touches it"),
        })
        .expect("readable")
    {}
}
