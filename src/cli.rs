//! The command line: what can be asked of the program, and where each answer is.

pub mod check;
pub mod demo;
pub mod diagnose;
pub mod explain;
pub mod node;
pub mod reference;
pub mod replay;
pub mod serve;
pub mod simulate;
pub mod web;

use clap::{Parser, Subcommand, ValueEnum};

/// Per-node Prometheus exporter that tells a quiet validation from a hung training.
#[derive(Debug, Parser)]
#[command(version, about, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// Without a command it serves.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// What to serve.
    #[command(flatten)]
    pub serve: serve::Args,
    /// How the program speaks of itself.
    #[command(flatten)]
    pub voice: Voice,
}

/// The program's own log, on stderr.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Voice {
    /// Least level that is told.
    #[arg(long = "log.level", value_enum, global = true, default_value_t = Level::Info, env = "TRAINING_EXPORTER_LOG_LEVEL")]
    pub log_level: Level,
    /// Form of each line.
    #[arg(long = "log.format", value_enum, global = true, default_value_t = Format::Text, env = "TRAINING_EXPORTER_LOG_FORMAT")]
    pub log_format: Format,
}

/// Levels of the program's own log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the usual words")]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// Forms of the program's own log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve (this is what happens without a command).
    Serve(serve::Args),
    /// See it work: a recorded training, then a hang, on a simulated node. No GPU needed.
    Demo(demo::Args),
    /// Print what a log says, change by change.
    Replay(replay::Args),
    /// Tell which rule of which preset fits a line, and what is taken from it.
    Explain(explain::Args),
    /// Play scenarios in virtual time through the same code and the alert rules (needs promtool).
    Simulate(simulate::Args),
    /// Look at a run twice: what moved, the verdict, how sure, and what to run next.
    Diagnose(diagnose::Args),
    /// Check config, preset and scenario files.
    Check(check::Args),
    /// Print the metric reference as Markdown.
    Metrics,
    /// Ask the driver for the exporter, as its child process.
    #[command(hide = true)]
    NvmlWorker {
        /// The library; without it the loader looks for libnvidia-ml.so.1.
        #[arg(long)]
        library: Option<std::path::PathBuf>,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn no_flag_is_in_anothers_way() {
        super::Cli::command().debug_assert();
    }
}
