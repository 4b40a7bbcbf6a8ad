//! The flags of the server: where it listens, and by which rules it answers.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use listenfd::ListenFd;
use tokio::net::TcpListener;

use crate::web::config::Guard;
use crate::web::{Settings, telemetry_path};

/// The default port.
pub const PORT: u16 = 9841;

/// Flags by which every exporter is served.
#[derive(Clone, Debug, clap::Args)]
pub struct Web {
    /// Address to listen on, such as :9841, 10.0.0.1:9841 or `[::1]:9841`; may be given several times [default: :9841].
    #[arg(
        long = "web.listen-address",
        value_name = "ADDRESS",
        env = "TRAINING_EXPORTER_WEB_LISTEN_ADDRESS"
    )]
    listen: Vec<String>,
    /// Listen on the sockets that systemd hands over, instead of an address.
    #[arg(
        long = "web.systemd-socket",
        conflicts_with = "listen",
        env = "TRAINING_EXPORTER_WEB_SYSTEMD_SOCKET"
    )]
    systemd_socket: bool,
    /// TLS, users and headers, in the form of Prometheus' exporter-toolkit.
    #[arg(
        long = "web.config.file",
        value_name = "FILE",
        env = "TRAINING_EXPORTER_WEB_CONFIG_FILE"
    )]
    rules: Option<PathBuf>,
    /// Where the metrics are.
    #[arg(
        long = "web.telemetry-path",
        value_name = "PATH",
        default_value = "/metrics",
        value_parser = telemetry_path,
        env = "TRAINING_EXPORTER_WEB_TELEMETRY_PATH"
    )]
    telemetry_path: String,
    /// The most requests that are answered at one time; 0 sets no limit.
    #[arg(
        long = "web.max-requests",
        value_name = "COUNT",
        default_value_t = 40,
        env = "TRAINING_EXPORTER_WEB_MAX_REQUESTS"
    )]
    max_requests: usize,
}

impl Web {
    /// By which rules it answers.
    pub fn settings(&self) -> Result<Settings> {
        let guard = self.rules.as_deref().map(Guard::open);
        Ok(Settings {
            telemetry_path: self.telemetry_path.clone(),
            max_requests: self.max_requests,
            guard: guard.transpose()?.unwrap_or_default(),
        })
    }

    /// Takes the ports.
    pub async fn listen(&self) -> Result<Vec<TcpListener>> {
        if self.systemd_socket {
            return handed_over();
        }
        listen(&self.listen, &format!(":{PORT}")).await
    }
}

/// Takes the ports of the addresses given, or of the default, or tells who to ask.
pub async fn listen(given: &[String], default: &str) -> Result<Vec<TcpListener>> {
    let given = given.iter().map(String::as_str);
    let all: Vec<&str> = match given.len() {
        0 => vec![default],
        _ => given.collect(),
    };
    let mut listeners = Vec::new();
    for text in all {
        let addresses = addresses(text)?;
        let listener = TcpListener::bind(&addresses[..]).await.with_context(|| {
            format!("cannot listen on {text}: if another process has the port, give --web.listen-address :PORT")
        })?;
        tracing::info!(address = %listener.local_addr()?, version = env!("CARGO_PKG_VERSION"), "listening");
        listeners.push(listener);
    }
    Ok(listeners)
}

/// What an address may mean, the first to be tried first: `:PORT` is every address of IPv6 and IPv4, or of IPv4 alone
/// where there is no IPv6.
pub(super) fn addresses(text: &str) -> Result<Vec<SocketAddr>> {
    let all = match text.strip_prefix(':').map(str::parse::<u16>) {
        Some(Ok(port)) => Ok(vec![
            (Ipv6Addr::UNSPECIFIED, port).into(),
            (Ipv4Addr::UNSPECIFIED, port).into(),
        ]),
        Some(Err(e)) => Err(e.into()),
        None => text
            .to_socket_addrs()
            .map(Iterator::collect)
            .map_err(anyhow::Error::from),
    };
    all.with_context(|| {
        format!("--web.listen-address `{text}`: expected HOST:PORT or :PORT, such as :{PORT}")
    })
}

fn handed_over() -> Result<Vec<TcpListener>> {
    let mut sockets = ListenFd::from_env();
    let mut listeners = Vec::new();
    for index in 0..sockets.len() {
        let socket = sockets.take_tcp_listener(index)?;
        let socket =
            socket.with_context(|| format!("systemd's socket {index} does not listen on TCP"))?;
        socket.set_nonblocking(true)?;
        tracing::info!(address = %socket.local_addr()?, version = env!("CARGO_PKG_VERSION"), "listening");
        listeners.push(TcpListener::from_std(socket)?);
    }
    if listeners.is_empty() {
        bail!("--web.systemd-socket: systemd handed over no socket");
    }
    Ok(listeners)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_everywhere() {
        let read = |text: &str| addresses(text).map(|all| all[0].to_string()).ok();
        for (text, address) in [
            (":9841", Some("[::]:9841")),
            ("127.0.0.1:1", Some("127.0.0.1:1")),
            ("[::1]:1", Some("[::1]:1")),
            (":", None),
            (":99999", None),
            ("127.0.0.1", None),
            ("::1:x", None),
        ] {
            assert_eq!(read(text).as_deref(), address, "{text}");
        }
    }
}
