//! `training-exporter` itself: configuration -> threads -> server -> signals -> stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::node::Node;
use super::web::Web;
use crate::config::{Config, LogSource};
use crate::run::{self, Pace};
use crate::state::Shared;
use crate::web::{Settings, door};

/// How long requests under way, and then the source threads, are waited for. Together they stay below 5 s.
const DRAIN: Duration = Duration::from_secs(2);
const STOP: Duration = Duration::from_secs(2);

/// Arguments of `serve`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Configuration (YAML). Flags add to it.
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

/// Serves until SIGTERM or SIGINT.
pub fn run(args: &Args) -> Result<()> {
    let mut config = match &args.config_file {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    for path in &args.log_path {
        config.add(LogSource {
            val_data: args.val_data.clone(),
            val_files: args.val_files,
            ..LogSource::path(path)
        })?;
    }
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
    let listeners = runtime.block_on(args.web.listen())?;
    let sources = args.node.sources()?;
    let threads = run::start(Arc::new(config), sources, Pace::default(), &shared)?;
    runtime.block_on(until_told(listeners, &shared, &settings, false))?;
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

/// Answers requests until a signal comes, and then those under way, for a while. A closed terminal ends only what belongs
/// to it.
pub async fn until_told(
    listeners: Vec<TcpListener>,
    shared: &Shared,
    settings: &Settings,
    end_on_hangup: bool,
) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Many send it to have a configuration read anew; that is not possible yet, and no reason to end.
    let mut hangup = signal(SignalKind::hangup())?;
    let (told, end) = tokio::sync::oneshot::channel::<()>();
    let router = settings.router(shared.clone(), run::now);
    let server = door::serve(listeners, router, settings.guard.clone(), async {
        // Either way it is over.
        let _ = end.await;
    });
    let mut server = std::pin::pin!(server);
    loop {
        tokio::select! {
            () = &mut server => return Ok(()),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                if end_on_hangup {
                    break;
                }
                tracing::warn!("the configuration is read at the start only: restart to have it read anew");
            }
        }
    }
    drop(told);
    // A client that is slow to read does not hold the end.
    let _ = tokio::time::timeout(DRAIN, server).await;
    Ok(())
}
