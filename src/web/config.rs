//! The file of `--web.config.file`, in the form of Prometheus' exporter-toolkit: TLS, headers, users and a rate.
//!
//! It is read anew at each connection and each request, with every file that it names, so a renewed certificate or a
//! removed user counts at once. While no byte has changed, what was made of them is kept. A file that turned bad
//! answers nobody, rather than by rules that its owner has taken back.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::{HeaderName, HeaderValue, header};
use regex::Regex;
use serde::Deserialize;
use tokio_rustls::rustls::ServerConfig;

use super::auth::Users;
use super::tls::Tls;
use crate::config::{Bad, form, read};
use crate::job::Unix;

/// What the file says, made ready.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// How to speak; plainly without it.
    pub(super) tls: Option<Arc<ServerConfig>>,
    /// Headers for every answer.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// Who may ask; anybody if there is none.
    pub(super) users: Users,
    /// How often.
    pub(super) rate: Option<Rate>,
}

/// A token bucket: one request in each interval, and a burst beyond it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    /// Seconds.
    pub(super) interval: f64,
    /// Requests.
    pub(super) burst: f64,
}

/// The file, watched by reading it.
#[derive(Clone, Debug, Default)]
pub struct Guard(Option<Arc<Watched>>);

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    kept: Mutex<Kept>,
    /// How many requests may come at once, and since when.
    bucket: Mutex<Option<(f64, Unix)>>,
}

#[derive(Debug)]
struct Kept {
    /// Every file that was read, and what was in it, if it could be read.
    files: Files,
    rules: Result<Arc<Rules>, String>,
    /// The newest good rules asked for TLS.
    tls: bool,
}

type Files = Vec<(PathBuf, Option<String>)>;

impl Guard {
    /// Reads the file for the first time.
    pub fn open(path: &Path) -> Result<Self, Bad> {
        let (files, rules) = load(path);
        let rules = rules?;
        let kept = Kept {
            files,
            tls: rules.tls.is_some(),
            rules: Ok(Arc::new(rules)),
        };
        Ok(Self(Some(Arc::new(Watched {
            path: path.to_owned(),
            kept: Mutex::new(kept),
            bucket: Mutex::default(),
        }))))
    }

    /// What holds at this moment, or why nothing does.
    pub(super) fn rules(&self) -> Result<Arc<Rules>, String> {
        let Some(watched) = &self.0 else {
            return Ok(Arc::default());
        };
        let mut kept = lock(&watched.kept);
        if kept.files.iter().all(|(path, was)| read(path).ok() == *was) {
            return kept.rules.clone();
        }
        let (files, rules) = load(&watched.path);
        kept.files = files;
        match rules {
            Ok(rules) => {
                tracing::info!(file = ?watched.path, "the web configuration changed");
                kept.tls = rules.tls.is_some();
                kept.rules = Ok(Arc::new(rules));
            }
            Err(e) => {
                tracing::error!("nobody is answered: {e}");
                kept.rules = Err(e.to_string());
            }
        }
        kept.rules.clone()
    }

    /// How a connection speaks: by TLS, or plainly. While the file is bad, one that was plain stays so, to be told; TLS
    /// is nothing to be guessed.
    pub(super) fn tls(&self) -> Result<Option<Arc<ServerConfig>>, String> {
        let rules = self.rules();
        let was_tls = self
            .0
            .as_ref()
            .is_some_and(|watched| lock(&watched.kept).tls);
        match rules {
            Ok(rules) => Ok(rules.tls.clone()),
            Err(_) if !was_tls => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// A request at `now` is not one too many.
    pub(super) fn in_time(&self, rate: Option<Rate>, now: Unix) -> bool {
        let (Some(watched), Some(Rate { interval, burst })) = (&self.0, rate) else {
            return true;
        };
        let mut bucket = lock(&watched.bucket);
        let (left, since) = bucket.unwrap_or((burst, now));
        let left = (left + (now - since).max(0.0) / interval).min(burst);
        let free = left >= 1.0;
        *bucket = Some((if free { left - 1.0 } else { left }, now));
        free
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks a file and all that it names.
pub fn check(path: &Path) -> Result<(), Bad> {
    load(path).1.map(|_| ())
}

fn load(path: &Path) -> (Files, Result<Rules, Bad>) {
    let mut files = Files::new();
    let rules = parse(path, &mut |path| {
        let text = read(path);
        files.push((path.to_owned(), text.as_ref().ok().cloned()));
        text
    });
    (files, rules)
}

fn parse(path: &Path, read: &mut dyn FnMut(&Path) -> Result<String, Bad>) -> Result<Rules, Bad> {
    let file: File = form(&read(path)?, path)?;
    let http = file.http_server_config.unwrap_or_default();
    let folder = path.parent().unwrap_or(Path::new("."));
    let tls = match &file.tls_server_config {
        Some(tls) => tls
            .server_config(folder, http.http2, read)
            .map_err(|e| Bad::new(path, &format!("tls_server_config: {e}")))?,
        None => None,
    };
    Ok(Rules {
        tls: tls.map(Arc::new),
        headers: http.headers.unwrap_or_default().list(),
        users: file.basic_auth_users.unwrap_or_default(),
        rate: file
            .rate_limit
            .map(RateLimit::rate)
            .transpose()
            .map_err(|e| Bad::new(path, &format!("rate_limit: {e}")))?
            .flatten(),
    })
}

/// The file's form. What is absent, and what is empty, is at its default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    tls_server_config: Option<Tls>,
    http_server_config: Option<Http>,
    basic_auth_users: Option<Users>,
    rate_limit: Option<RateLimit>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Http {
    http2: bool,
    headers: Option<Headers>,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            http2: true,
            headers: None,
        }
    }
}

/// The headers that may be set; a blank one is not.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Headers {
    #[serde(rename = "Content-Security-Policy")]
    policy: Option<Value>,
    #[serde(rename = "X-Frame-Options")]
    frame: Option<Frame>,
    #[serde(rename = "X-Content-Type-Options")]
    content_type: Option<ContentType>,
    #[serde(rename = "X-XSS-Protection")]
    xss: Option<Value>,
    #[serde(rename = "Strict-Transport-Security")]
    transport: Option<Value>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Frame {
    #[serde(rename = "")]
    Blank,
    #[serde(rename = "deny")]
    Deny,
    #[serde(rename = "sameorigin")]
    SameOrigin,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum ContentType {
    #[serde(rename = "")]
    Blank,
    #[serde(rename = "nosniff")]
    NoSniff,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Value(HeaderValue);

impl TryFrom<String> for Value {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let value = HeaderValue::try_from(text).map_err(|_| "not the value of a header")?;
        Ok(Self(value))
    }
}

impl Headers {
    fn list(self) -> Vec<(HeaderName, HeaderValue)> {
        let text = HeaderValue::from_static;
        let frame = self.frame.map(|frame| match frame {
            Frame::Blank => text(""),
            Frame::Deny => text("deny"),
            Frame::SameOrigin => text("sameorigin"),
        });
        let content_type = self.content_type.map(|kind| match kind {
            ContentType::Blank => text(""),
            ContentType::NoSniff => text("nosniff"),
        });
        let all = [
            (header::CONTENT_SECURITY_POLICY, self.policy.map(|v| v.0)),
            (header::X_FRAME_OPTIONS, frame),
            (header::X_CONTENT_TYPE_OPTIONS, content_type),
            (header::X_XSS_PROTECTION, self.xss.map(|v| v.0)),
            (
                header::STRICT_TRANSPORT_SECURITY,
                self.transport.map(|v| v.0),
            ),
        ];
        all.into_iter()
            .filter_map(|(name, value)| Some((name, value.filter(|v| !v.is_empty())?)))
            .collect()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RateLimit {
    interval: Option<Interval>,
    burst: u32,
}

/// Seconds, written as Go writes them: `1s`, `250ms`, `1m30s`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Interval(f64);

impl TryFrom<String> for Interval {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let whole = Regex::new(r"^(?:0|(?:[0-9.]+(?:ns|us|µs|ms|s|m|h))+)$").expect("constant");
        let part = Regex::new(r"([0-9.]+)(ns|us|µs|ms|s|m|h)").expect("constant");
        let bad = || format!("`{text}` is no length of time; write `1s` or `250ms`");
        if !whole.is_match(&text) {
            return Err(bad());
        }
        let mut seconds = 0.0;
        for found in part.captures_iter(&text) {
            let unit = match &found[2] {
                "ns" => 1e-9,
                "us" | "µs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                _ => 3600.0,
            };
            seconds += unit * found[1].parse::<f64>().map_err(|_| bad())?;
        }
        Ok(Self(seconds))
    }
}

impl RateLimit {
    fn rate(self) -> Result<Option<Rate>, &'static str> {
        match self.interval {
            None | Some(Interval(0.0)) => Ok(None),
            Some(_) if self.burst == 0 => Err("burst: 0 would let nobody in; write 1 or more"),
            Some(Interval(interval)) => Ok(Some(Rate {
                interval,
                burst: f64::from(self.burst),
            })),
        }
    }
}
