//! Wires the command line to its answers. No logic.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use training_exporter::cli::{
    Cli, Command, Format, Level, Voice, check, demo, diagnose, explain, reference, replay, serve,
    simulate,
};
use training_exporter::run::worker;

fn main() -> ExitCode {
    let mut cli = Cli::parse();
    if matches!(cli.command, Some(Command::Diagnose(_))) && cli.voice.log_level == Level::Info {
        // Its report says what the source threads would.
        cli.voice.log_level = Level::Error;
    }
    speak(cli.voice);
    let mut failure = ExitCode::FAILURE;
    let result = match cli.command {
        None => serve::run(&cli.serve),
        Some(Command::Serve(args)) => serve::run(&args),
        Some(Command::Demo(args)) => demo::run(&args),
        Some(Command::Explain(args)) => explain::run(&args, &mut io::stdout().lock()),
        Some(Command::Replay(args)) => replay::run(&args, &mut io::stdout().lock()),
        Some(Command::Simulate(args)) => simulate::run(&args, &mut io::stdout().lock()),
        Some(Command::Diagnose(args)) => {
            failure = ExitCode::from(diagnose::ERROR);
            match diagnose::run(&args, &mut io::stdout().lock()) {
                Ok(code) => return code,
                Err(e) => Err(e),
            }
        }
        Some(Command::Check(args)) => check::run(&args, &mut io::stdout().lock()),
        Some(Command::NvmlWorker { library }) => worker::nvml_worker(library.as_deref()),
        Some(Command::Metrics) => reference::run(&mut io::stdout().lock()).map_err(Into::into),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(e)
            if e.downcast_ref::<io::Error>()
                .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) =>
        {
            ExitCode::SUCCESS
        }
        Err(e) => {
            let _ = writeln!(io::stderr(), "training-exporter: {e:#}");
            failure
        }
    }
}

/// Sets up the program's own log.
fn speak(voice: Voice) {
    let level = match voice.log_level {
        Level::Debug => tracing::Level::DEBUG,
        Level::Info => tracing::Level::INFO,
        Level::Warn => tracing::Level::WARN,
        Level::Error => tracing::Level::ERROR,
    };
    let plain = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        .with_target(false);
    match voice.log_format {
        Format::Text => plain.with_ansi(false).init(),
        Format::Json => plain.json().init(),
    }
}
