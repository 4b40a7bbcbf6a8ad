//! `training-exporter` itself: configuration -> threads -> server -> signals -> stop.
//!
//! SIGHUP has the configuration read anew. One that is wrong changes nothing: it is told, and the old one stays in force.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::node::Node;
use super::web::Web;
use crate::config::{Config, LogSource};
use crate::run::{self, Pace, Threads};
use crate::state::Shared;
use crate::web::{Settings, door};

/// How long requests under way, and then the source threads, are waited for. Together they stay below 5 s.
const DRAIN: Duration = Duration::from_secs(2);
const STOP: Duration = Duration::from_secs(2);
/// The file system of a configuration that takes longer to read does not answer.
const READ: Duration = Duration::from_secs(30);

/// Arguments of `serve`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Configuration (YAML). Flags add to it; SIGHUP has it read anew.
    #[arg(
        long = "config.file",
        value_name = "FILE",
        env = "TRAINING_EXPORTER_CONFIG_FILE"
    )]
    config_file: Option<PathBuf>,
    /// A training's log, or a pattern; may be given several times.
    #[arg(
        long = "log.path",
        value_name = "GLOB",
        env = "TRAINING_EXPORTER_LOG_PATH"
    )]
    log_path: Vec<String>,
    /// Folder of validation samples of the logs given by --log.path; may be given several times.
    #[arg(
        long = "val.data",
        value_name = "DIR",
        env = "TRAINING_EXPORTER_VAL_DATA"
    )]
    val_data: Vec<PathBuf>,
    /// How many files a whole validation opens, where it is known; else the previous validation tells.
    #[arg(
        long = "val.files",
        value_name = "COUNT",
        env = "TRAINING_EXPORTER_VAL_FILES"
    )]
    val_files: Option<u64>,
    /// This node.
    #[command(flatten)]
    node: Node,
    /// The server.
    #[command(flatten)]
    web: Web,
}

impl Args {
    /// The file's configuration, with what the flags add.
    fn config(&self) -> Result<Config> {
        let mut config = match &self.config_file {
            Some(path) => Config::load(path)?,
            None => Config::default(),
        };
        for path in &self.log_path {
            config.add(LogSource {
                val_data: self.val_data.clone(),
                val_files: self.val_files,
                ..LogSource::path(path)
            })?;
        }
        Ok(config)
    }
}

/// Serves until SIGTERM or SIGINT.
pub fn run(args: &Args) -> Result<()> {
    let config = args.config()?;
    if args.log_path.is_empty() && !args.val_data.is_empty() {
        tracing::warn!("--val.data is for the logs given by --log.path, and none is given");
    }
    if config.logs.is_empty() {
        tracing::warn!(
            "no log is configured: give --log.path or a config file; until then no run can be shown"
        );
    }
    let settings = args.web.settings()?;
    let shared = Shared::default();
    let runtime = runtime()?;
    let hangups = runtime.block_on(async { hangups() })?;
    let listeners = runtime.block_on(args.web.listen())?;
    let sources = args.node.sources()?;
    let threads = run::start(Arc::new(config), sources, Pace::default(), &shared)?;
    let reloads = reloads(args, hangups, &threads, &shared);
    runtime.block_on(until_told(listeners, &shared, &settings, reloads))?;
    // A password that is being checked is not waited for.
    runtime.shutdown_background();
    if !threads.stop(STOP) {
        tracing::warn!("a source did not end in time and is left behind");
    }
    Ok(())
}

/// A runtime of one thread: everything but the door runs on threads of its own.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

/// SIGHUP, which from here on ends nothing by itself.
pub fn hangups() -> Result<Signal> {
    Ok(signal(SignalKind::hangup())?)
}

/// Reads the configuration anew at each SIGHUP, for ever.
async fn reloads(args: &Args, mut hangups: Signal, threads: &Threads, shared: &Shared) {
    loop {
        hangups.recv().await;
        // Its file system may never answer, and whoever asks for a page is not to wait for it.
        let args = args.clone();
        let read = tokio::task::spawn_blocking(move || args.config());
        let read = match tokio::time::timeout(READ, read).await {
            Ok(read) => read.unwrap_or_else(|e| Err(e.into())),
            Err(late) => Err(late).context("it cannot be read: its file system does not answer"),
        };
        match read.map(|config| threads.reload(config, shared)) {
            Ok(true) => tracing::info!("the configuration was read anew and is in force"),
            Ok(false) => tracing::info!("the configuration was read anew: nothing has changed"),
            Err(e) => {
                tracing::error!(error = %e, "the configuration was refused: the old one stays in force");
                shared.lock().exporter.config_error = Some(e.to_string());
            }
        }
    }
}

/// Answers requests until a signal comes or `over` is, and then those under way, for a while.
pub async fn until_told(
    listeners: Vec<TcpListener>,
    shared: &Shared,
    settings: &Settings,
    over: impl Future<Output = ()>,
) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (told, end) = tokio::sync::oneshot::channel::<()>();
    let router = settings.router(shared.clone(), run::now);
    let server = door::serve(listeners, router, settings.guard.clone(), async {
        // Either way it is over.
        let _ = end.await;
    });
    let mut server = std::pin::pin!(server);
    tokio::select! {
        () = &mut server => return Ok(()),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = over => {}
    }
    drop(told);
    // A client that is slow to read does not hold the end.
    let _ = tokio::time::timeout(DRAIN, server).await;
    Ok(())
}
