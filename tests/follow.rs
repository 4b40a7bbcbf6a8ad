//! `Follower` makes one path look like one endless log, whatever happens to the file: real files, looked at by hand.
//!
//! No test waits for time to pass. What a follower cannot see stands in its own documentation and is shown here too.

#![expect(clippy::disallowed_methods, reason = "only a program can make a FIFO")]

use std::fs::{self, File, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use training_exporter::log::follow::{Follower, Gained};
use training_exporter::log::lines::Lines;

#[path = "follow/model.rs"]
mod model;
#[path = "follow/stage.rs"]
mod stage;

use stage::{Stage, TURNS, append, appending, lines};

const ABSENT: &str = "<No such file or directory (os error 2)>";

#[test]
fn appended_bytes_come_once() {
    let mut stage = Stage::new();
    append(&stage.log, "one\n");
    assert_eq!(stage.look(), "one\n");
    assert_eq!(stage.look(), "");
    append(&stage.log, "two\nth");
    append(&stage.log, "ree\n");
    assert_eq!(stage.look(), "two\nthree\n");
    assert_eq!(stage.follower.lag(), 0);
}

#[test]
fn a_line_over_two_looks_is_one_line() {
    let mut stage = Stage::new();
    let mut state = Lines::default();
    append(&stage.log, "step 1");
    assert!(lines(&mut stage.follower, &mut state).is_empty());
    append(&stage.log, "2/400\n");
    assert_eq!(lines(&mut stage.follower, &mut state), ["step 12/400"]);
}

#[test]
fn other_bytes_than_text_come_as_they_are() {
    let mut stage = Stage::new();
    fs::write(&stage.log, b"\xff\x00\xe2\x96|\n").expect("written");
    let mut seen = Vec::new();
    let more = stage.follower.poll(&mut |gained| {
        if let Gained::Bytes(bytes) = gained {
            seen.extend_from_slice(bytes);
        }
    });
    assert!(!more.expect("readable"));
    assert_eq!(seen, b"\xff\x00\xe2\x96|\n");
}

#[test]
fn a_file_may_come_late_go_and_come_again() {
    let mut stage = Stage::new();
    assert_eq!(stage.look(), ABSENT);
    let mut writer = appending(&stage.log);
    assert_eq!(stage.look(), "");
    writeln!(writer, "a").expect("written");
    assert_eq!(stage.look(), "a\n");
    fs::remove_file(&stage.log).expect("deleted");
    writeln!(writer, "b").expect("written");
    assert_eq!(stage.look(), "b\n", "the writer still holds the old file");
    assert_eq!(stage.look(), "");
    assert!(stage.follower.is_open());
    append(&stage.log, "c\n");
    assert_eq!(stage.look(), "<rotated>c\n");
}

#[test]
fn deleted_and_made_again_is_another_file_however_often() {
    let mut stage = Stage::new();
    append(&stage.log, "0\n");
    assert_eq!(stage.look(), "0\n");
    // Without the open handle the inode would be used again at once.
    for n in 1..50 {
        fs::remove_file(&stage.log).expect("deleted");
        append(&stage.log, &format!("{n}, longer than before\n"));
        assert_eq!(stage.look(), format!("<rotated>{n}, longer than before\n"));
    }
}

#[test]
fn a_rotation_loses_nothing_that_was_written_before_the_new_file_came() {
    let mut stage = Stage::new();
    let mut writer = appending(&stage.log);
    writeln!(writer, "old").expect("written");
    assert_eq!(stage.look(), "old\n");
    writeln!(writer, "unread").expect("written");
    fs::rename(&stage.log, stage.path("train.log.1")).expect("moved");
    writeln!(writer, "late").expect("written");
    append(&stage.log, "new\n");
    assert_eq!(stage.look(), "unread\nlate\n<rotated>new\n");
    assert_eq!(stage.look(), "");
}

#[test]
fn a_moved_file_is_read_on_while_nothing_or_an_empty_file_stands_in_its_place() {
    let mut stage = Stage::new();
    let mut writer = appending(&stage.log);
    writeln!(writer, "a").expect("written");
    assert_eq!(stage.look(), "a\n");
    fs::rename(&stage.log, stage.path("train.log.1")).expect("moved");
    writeln!(writer, "b").expect("written");
    assert_eq!(stage.look(), "b\n");
    File::create(&stage.log).expect("what a rotation leaves");
    writeln!(writer, "c").expect("written");
    assert_eq!(stage.look(), "c\n", "`> train.log` never opens it again");
    assert_eq!(stage.look(), "");
    append(&stage.log, "d\n");
    assert_eq!(stage.look(), "<rotated>d\n");
}

#[test]
fn a_cut_file_is_read_from_its_new_beginning() {
    for (again, seen) in [
        ("", "<cut>"),
        ("short\n", "<cut>short\n"),
        ("the same\n", "<cut>the same\n"),
        (
            "much longer than before\n",
            "<cut>much longer than before\n",
        ),
        // Cannot be seen: it begins as it did, and is no shorter.
        ("12345678\nmore\n", "more\n"),
    ] {
        let mut stage = Stage::new();
        append(&stage.log, "12345678\n");
        assert_eq!(stage.look(), "12345678\n");
        fs::write(&stage.log, again).expect("written again");
        assert_eq!(stage.look(), seen);
        assert_eq!(stage.look(), "");
    }
}

/// As the attribute cache of a network file system tells it: the size of a moment ago, after a newer one.
#[test]
fn a_far_file_that_seems_shorter_for_a_moment_is_not_read_twice() {
    let mut stage = Stage::new();
    stage.follower = Follower::new(&stage.log).far();
    append(&stage.log, "12345678\nmore\n");
    assert_eq!(stage.look(), "12345678\nmore\n");
    let file = appending(&stage.log);
    for _ in 0..3 {
        file.set_len(9).expect("the old size");
        assert_eq!(stage.look(), "");
        append(&stage.log, "more\n");
        assert_eq!(stage.look(), "");
    }
    append(&stage.log, "new\n");
    assert_eq!(stage.look(), "new\n");
    file.set_len(9).expect("cut");
    let looks: Vec<String> = (0..5).map(|_| stage.look()).collect();
    assert_eq!(looks, ["", "", "", "", "<cut>12345678\n"]);
    fs::write(&stage.log, "other\n").expect("written anew");
    assert_eq!(
        stage.look(),
        "<cut>other\n",
        "what begins otherwise was cut"
    );
}

/// As a network file system tells it: the new size, and zeros where its last bytes have not come yet.
#[test]
fn zeros_at_the_end_of_a_far_file_are_read_once_they_are_bytes() {
    let mut stage = Stage::new();
    stage.follower = Follower::new(&stage.log).far();
    append(&stage.log, "one\n");
    assert_eq!(stage.look(), "one\n");
    let file = File::options().write(true).open(&stage.log).expect("a log");
    let fill = |text: &str, at| file.write_all_at(text.as_bytes(), at).expect("written");
    file.set_len(20).expect("the new size");
    fill("two\n", 4);
    assert_eq!(stage.look(), "two\n");
    assert_eq!(stage.look(), "", "no zeros are taken");
    assert_eq!(stage.follower.lag(), 12);
    // The last page before the one in the middle.
    fill("four\n", 15);
    assert_eq!(stage.look(), "");
    fill("threethree\n", 8);
    fill("four\n", 19);
    assert_eq!(stage.look(), "threethree\nfour\n");
    // Bytes that were read seem to be zeros for a moment.
    fill("\0\0\0", 0);
    assert_eq!(stage.look(), "");
    fill("one", 0);
    append(&stage.log, "five\n");
    assert_eq!(stage.look(), "five\n");
}

#[test]
fn zeros_that_stay_in_a_far_file_are_what_was_written_and_hide_nothing() {
    let mut stage = Stage::new();
    stage.follower = Follower::new(&stage.log).far();
    append(&stage.log, "a\n\0\0b\n\0c\n");
    let looks: Vec<String> = (0..6).map(|_| stage.look()).collect();
    assert_eq!(
        looks,
        ["a\n", "", "", "", "\0\0b\n\0c\n", ""],
        "all together"
    );
    append(&stage.log, "d\n");
    assert_eq!(stage.look(), "d\n", "what is believed is not doubted again");
    // A rotation waits for what is doubted.
    append(&stage.log, "e\0f\n");
    fs::rename(&stage.log, stage.path("train.log.1")).expect("moved");
    append(&stage.log, "new\n");
    let looks: Vec<String> = (0..5).map(|_| stage.look()).collect();
    assert_eq!(looks, ["e", "", "", "", "\0f\n<rotated>new\n"]);
}

/// A writer that did not open for appending writes on where it was: nothing but zeros is before that.
#[test]
fn a_hole_of_zeros_is_no_line_and_hides_none() {
    for looked_while_empty in [true, false] {
        let mut stage = Stage::new();
        let mut state = Lines::default();
        let mut writer = File::create(&stage.log).expect("`> log`");
        writer.seek(SeekFrom::Start(9 << 20)).expect("far on");
        writeln!(writer, "before").expect("written");
        let before = lines(&mut stage.follower, &mut state);
        assert_eq!(before, ["before"]);
        writer.set_len(0).expect("copytruncate");
        if looked_while_empty {
            assert!(lines(&mut stage.follower, &mut state).is_empty());
        }
        writer.write_all(b"step 7\nstep 8\n").expect("written");
        let after = lines(&mut stage.follower, &mut state);
        assert_eq!(after, ["step 7", "step 8"]);
    }
}

#[test]
fn a_link_that_leads_elsewhere_is_another_file() {
    let mut stage = Stage::new();
    let (first, second) = (stage.path("run1.log"), stage.path("run2.log"));
    append(&first, "one\n");
    append(&second, "two\n");
    symlink(&first, &stage.log).expect("a link");
    assert_eq!(stage.look(), "one\n");
    append(&first, "last\n");
    symlink(&second, stage.path("link")).expect("a link");
    fs::rename(stage.path("link"), &stage.log).expect("moved");
    assert_eq!(stage.look(), "last\n<rotated>two\n");
}

#[test]
fn what_is_no_file_is_refused_and_never_waited_for() {
    let stage = Stage::new();
    let fifo = stage.path("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo").success());
    for (path, what) in [
        (fifo.as_path(), "a FIFO"),
        (stage.dir.path(), "a directory"),
        (Path::new("/dev/zero"), "a device"),
    ] {
        let (told, tells) = channel();
        let mut follower = Follower::new(path);
        thread::spawn(move || {
            let result = follower.poll(&mut |_| panic!("nothing can be read"));
            told.send(result.expect_err("refused").to_string())
        });
        let told = tells.recv_timeout(Duration::from_secs(30));
        let told = told.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(told, format!("{what}, not a regular file"));
    }
}

#[test]
fn what_takes_a_logs_place_and_is_no_file_is_told_after_the_logs_last_bytes() {
    let mut stage = Stage::new();
    append(&stage.log, "a\n");
    assert_eq!(stage.look(), "a\n");
    append(&stage.log, "b\n");
    fs::rename(&stage.log, stage.path("train.log.1")).expect("moved");
    fs::create_dir(&stage.log).expect("a folder");
    assert_eq!(stage.look(), "b\n<a directory, not a regular file>");
}

#[test]
#[expect(clippy::print_stderr, reason = "says that it shows nothing")]
fn a_file_that_may_not_be_read_is_told_and_read_once_it_may() {
    let mut stage = Stage::new();
    append(&stage.log, "secret\n");
    fs::set_permissions(&stage.log, Permissions::from_mode(0o000)).expect("closed");
    if File::open(&stage.log).is_ok() {
        eprintln!("skipped: root may read every file");
        return;
    }
    assert_eq!(stage.look(), "<Permission denied (os error 13)>");
    fs::set_permissions(&stage.log, Permissions::from_mode(0o600)).expect("opened");
    assert_eq!(stage.look(), "secret\n");
}

/// As after a stale handle of a network file system: this process' own memory has no page at 0.
#[test]
fn a_file_that_can_no_longer_be_read_is_given_up_for_the_one_in_its_place() {
    let mut stage = Stage::new();
    symlink("/proc/self/mem", &stage.log).expect("a link");
    let lost = "<Input/output error (os error 5)>";
    assert_eq!(stage.look(), lost);
    assert_eq!(stage.look(), lost, "nothing else is there");
    fs::remove_file(&stage.log).expect("deleted");
    append(&stage.log, "new\n");
    assert_eq!(stage.look(), "<rotated>new\n");
}

#[test]
fn a_large_file_is_read_in_several_turns() {
    let mut stage = Stage::new();
    let whole: Vec<u8> = (1_u32..=5 << 20).flat_map(u32::to_le_bytes).collect();
    fs::write(&stage.log, &whole).expect("20 MiB");
    let (mut seen, mut turns, mut more) = (Vec::new(), 0, true);
    while more {
        let before = seen.len();
        let turn = stage.follower.poll(&mut |gained| match gained {
            Gained::Bytes(bytes) => seen.extend_from_slice(bytes),
            Gained::Rotated | Gained::Truncated => panic!("one file"),
        });
        more = turn.expect("readable");
        turns += 1;
        assert!(seen.len() - before <= 5 << 20, "others have their turn");
        assert!(turns <= TURNS, "it never ends");
        assert_eq!(stage.follower.lag(), (whole.len() - seen.len()) as u64);
    }
    assert!(turns >= 4 && seen == whole);
}
