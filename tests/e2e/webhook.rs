//! A webhook for Alertmanager: remembers each alert that it is told of, when that came, and for which receiver. Its one
//! thread ends with it.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use super::programs::now;

/// One alert in a notification.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    /// Unix time at which it came.
    pub(crate) at: f64,
    /// The receiver's name.
    pub(crate) receiver: String,
    /// The key of its group: what a pager takes for one incident.
    pub(crate) group: String,
    /// It fires; else it is resolved.
    pub(crate) firing: bool,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Notice {
    /// A label's value; nothing is the empty text, as in Prometheus.
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// The server.
pub(crate) struct Webhook {
    pub(crate) address: SocketAddr,
    notices: Arc<Mutex<Vec<Notice>>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Webhook {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let notices = Arc::new(Mutex::new(Vec::new()));
        let ends = Arc::new(AtomicBool::new(false));
        let (taken, over) = (notices.clone(), ends.clone());
        let thread = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                // Alertmanager tries again if this fails.
                if let Ok(told) = take(&stream) {
                    taken
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .extend(told);
                }
            }
        });
        Self {
            address,
            notices,
            ends,
            thread: Some(thread),
        }
    }

    /// All that came so far.
    pub(crate) fn notices(&self) -> Vec<Notice> {
        self.notices
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The first notice about a run with this alert, firing or resolved.
    pub(crate) fn first(&self, run: &str, alert: &str, firing: bool) -> Option<Notice> {
        self.notices().into_iter().find(|notice| {
            notice.label("run") == run
                && notice.label("alertname") == alert
                && notice.firing == firing
        })
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Takes one request and answers it.
fn take(mut stream: &TcpStream) -> io::Result<Vec<Notice>> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut request = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    request.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        request.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    request.read_exact(&mut body)?;
    let at = now();
    let told: Value = serde_json::from_slice(&body)?;
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    let receiver = first
        .split(' ')
        .nth(1)
        .unwrap_or_default()
        .trim_start_matches('/');
    let alerts = told["alerts"].as_array().into_iter().flatten();
    Ok(alerts
        .map(|alert| Notice {
            at,
            receiver: receiver.to_owned(),
            group: told["groupKey"].as_str().unwrap_or_default().to_owned(),
            firing: alert["status"] == "firing",
            labels: texts(&alert["labels"]),
            annotations: texts(&alert["annotations"]),
        })
        .collect())
}

/// A map of texts, as Alertmanager writes labels.
pub(crate) fn texts(map: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    map.as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), text(value)))
        .collect()
}
