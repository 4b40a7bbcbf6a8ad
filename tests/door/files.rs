//! Logs that are no files: a FIFO, a socket, a device, a folder, a link to itself, what may not be read. Each is told
//! and holds up nobody.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::stage::{Serving, plain, serve, until};
use super::support::{EXPORTER, Running, free_port, value};

fn fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo").success());
}

fn up(serving: &Serving, run: &str) -> Option<f64> {
    let page = plain(serving.address, "/metrics", "").text();
    value(&page, &format!("training_log_up{{run=\"{run}\"}}"))
}

#[test]
fn what_is_no_file_is_told_and_holds_up_nobody() {
    let serving = serve(|folder| {
        fifo(&folder.join("fifo.log"));
        std::mem::forget(UnixListener::bind(folder.join("socket.log")).expect("bound"));
        fs::create_dir(folder.join("folder.log")).expect("made");
        symlink("loop.log", folder.join("loop.log")).expect("linked");
        symlink("/dev/zero", folder.join("device.log")).expect("linked");
        fs::write(folder.join("good.log"), "INFO Training epoch 1/3 started\n").expect("written");
        let logs = [
            "fifo", "socket", "folder", "loop", "device", "good", "absent",
        ];
        let logs =
            logs.map(|name| format!("- {{path: {}/{name}.log, run: {name}}}\n", folder.display()));
        // A pattern finds the same things and makes no run of what is no file.
        let pattern = format!("- {{path: {}/*.log, run: found}}\n", folder.display());
        let config = folder.join("config.yaml");
        fs::write(&config, format!("logs:\n{}{pattern}", logs.concat())).expect("written");
        vec!["--config.file".into(), config.display().to_string()]
    });
    until("the good log is read", || {
        (up(&serving, "good") == Some(1.0)).then_some(())
    });
    let page = plain(serving.address, "/", "").text();
    for (run, why) in [
        ("fifo", "a FIFO, not a regular file"),
        ("socket", "a socket, not a regular file"),
        ("folder", "a directory, not a regular file"),
        ("device", "a device, not a regular file"),
        ("loop", "Too many levels of symbolic links"),
        ("absent", "No such file"),
    ] {
        assert_eq!(up(&serving, run), Some(0.0), "{run}");
        let told = format!("/{run}.log: {why}");
        assert!(page.contains(&told), "{told} in {page}");
    }
    // The good one is followed as if the others were not there, even when a FIFO takes its place and goes again.
    let good = serving.folder.path().join("good.log");
    let epoch = |want: f64| {
        let page = plain(serving.address, "/metrics", "").text();
        (value(&page, "training_epoch{run=\"good\"}") == Some(want)).then_some(())
    };
    fs::OpenOptions::new()
        .append(true)
        .open(&good)
        .and_then(|mut file| file.write_all(b"INFO Training epoch 2/3 started\n"))
        .expect("written");
    until("it goes on", || epoch(2.0));
    fs::remove_file(&good).expect("removed");
    fifo(&good);
    until("the FIFO in its place is told", || {
        (up(&serving, "good") == Some(0.0)).then_some(())
    });
    fs::remove_file(&good).expect("removed");
    fs::write(&good, "INFO Training epoch 3/3 started\n").expect("written");
    until("it is a file again", || epoch(3.0));
    let page = plain(serving.address, "/metrics", "").text();
    assert_eq!(
        value(&page, "training_exporter_source_success{source=\"log\"}"),
        Some(0.0)
    );
}

#[test]
fn a_log_that_may_not_be_read_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let exporter = folder.path().join("exporter");
    fs::copy(EXPORTER, &exporter).expect("copied");
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set")
    };
    open(folder.path(), 0o755);
    let log = folder.path().join("secret.log");
    fs::write(&log, "INFO Training epoch 1/3 started\n").expect("written");
    open(&log, 0o000);
    let free = free_port();
    let mut command = Command::new(&exporter);
    command
        .arg(format!("--log.path={}", log.display()))
        .arg(format!("--web.listen-address={free}"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // Who may read everything is somebody else for this.
    if fs::File::open(&log).is_ok() {
        command.uid(65534).gid(65534);
    }
    // Another test that starts a program at this moment still holds the copy open.
    let _running = Running(until("it starts", || command.spawn().ok()));
    until("it says what it may not read", || {
        std::net::TcpStream::connect(free).ok()?;
        let page = plain(free, "/", "").text();
        page.contains("secret.log: Permission denied").then_some(())
    });
}

#[test]
fn commands_refuse_what_is_no_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pipe = folder.path().join("pipe.yaml");
    fifo(&pipe);
    let pipe = pipe.display().to_string();
    let huge = folder.path().join("huge.yaml");
    fs::File::create(&huge)
        .and_then(|file| file.set_len(1 << 40))
        .expect("made");
    let huge = huge.display().to_string();
    let here = folder.path().display().to_string();
    for (args, why) in [
        (vec!["check", &pipe], "a FIFO, not a regular file"),
        (vec!["check", "/dev/zero"], "a device, not a regular file"),
        (vec!["check", &here], "a directory, not a regular file"),
        (vec!["check", &huge], "longer than 16 MiB"),
        (vec!["replay", &pipe], "a FIFO, not a regular file"),
        (vec!["replay", "/dev/zero"], "a device, not a regular file"),
        (vec!["replay", "--preset", &pipe, "Cargo.toml"], "no preset"),
        (
            vec!["replay", "--timeline", &pipe, "Cargo.toml"],
            "a FIFO, not a regular file",
        ),
        (
            vec!["--web.listen-address=127.0.0.1:0", "--config.file", &pipe],
            "a FIFO, not a regular file",
        ),
        (
            vec![
                "--web.listen-address=127.0.0.1:0",
                "--web.config.file",
                &pipe,
            ],
            "a FIFO, not a regular file",
        ),
        (vec!["simulate", &pipe], "FIFO"),
    ] {
        let child = Command::new(EXPORTER)
            .args(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut running = Running(child.expect("it starts"));
        let code = running.end_within(Duration::from_secs(20));
        let mut said = String::new();
        for mut from in [
            running
                .0
                .stdout
                .take()
                .map(|s| Box::new(s) as Box<dyn std::io::Read>),
            running.0.stderr.take().map(|s| Box::new(s) as _),
        ]
        .into_iter()
        .flatten()
        {
            if code.is_some() {
                from.read_to_string(&mut said).expect("text");
            }
        }
        assert_eq!(code, Some(1), "{args:?}: {said}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
}
