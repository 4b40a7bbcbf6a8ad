//! The server: what can be asked over HTTP. A request renders the state and touches nothing else.

mod auth;
mod card;
mod clients;
pub mod config;
pub mod door;
mod html;
pub mod page;
mod timeline;
mod tls;
pub mod view;
pub mod witness;
pub mod words;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::HttpBody;
use axum::extract::{Path, Query, Request, State as Extract};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Json, Redirect, Response};
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use include_dir::{Dir, include_dir};
use prometheus::core::{Collector, Desc};
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::MetricFamily;
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};
use ring::digest::{SHA256, digest};
use serde_json::Value;
use tokio::sync::Semaphore;
use tower_http::compression::CompressionLayer;

use crate::job::Unix;
use crate::state::Shared;
use crate::state::metrics::all_metrics;
use auth::Keeper;
use config::Guard;
use door::Answer;
use view::View;

static RUNBOOKS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/alerts/runbooks");

/// What can be set of the server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the metrics are.
    pub telemetry_path: String,
    /// Answers under way at one time; 0 sets no limit.
    pub max_requests: usize,
    /// The web configuration file.
    pub guard: Guard,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            telemetry_path: "/metrics".to_owned(),
            max_requests: 40,
            guard: Guard::default(),
        }
    }
}

/// What the handlers need.
#[derive(Clone)]
struct Site {
    shared: Shared,
    registry: Registry,
    clock: fn() -> Unix,
    guard: Guard,
    keeper: Arc<Keeper>,
    free: Arc<Semaphore>,
}

/// The routes, with nothing set. `clock` tells the time of a request.
pub fn router(shared: Shared, clock: fn() -> Unix) -> Router {
    Settings::default().router(shared, clock)
}

impl Settings {
    /// The routes. `clock` tells the time of a request.
    pub fn router(&self, shared: Shared, clock: fn() -> Unix) -> Router {
        let registry = Registry::new();
        let scrape = Scrape {
            shared: shared.clone(),
            clock,
            descriptions: descriptions(),
        };
        registry
            .register(Box::new(scrape))
            .expect("every metric has one row");
        registry
            .register(Box::new(ProcessCollector::for_self()))
            .expect("its names begin with process_");
        let limit = match self.max_requests {
            0 => Semaphore::MAX_PERMITS,
            limit => limit.min(Semaphore::MAX_PERMITS),
        };
        let site = Site {
            shared,
            registry,
            clock,
            guard: self.guard.clone(),
            keeper: Arc::default(),
            free: Arc::new(Semaphore::new(limit)),
        };
        let mut pages = Router::new()
            .route("/", get(status))
            .route(&self.telemetry_path, get(metrics))
            .route("/api/v1/runs", get(runs))
            .route("/runbooks/{name}", get(runbook));
        if self.telemetry_path != "/metrics" {
            // The page's link, and whoever knows only the usual place.
            let there = Redirect::temporary(&self.telemetry_path);
            pages = pages.route("/metrics", get(|| async { there }));
        }
        pages
            .layer(CompressionLayer::new())
            .layer(from_fn_with_state(site.clone(), limited))
            .route("/-/healthy", get(|| async { "Healthy.\n" }))
            .route("/-/ready", get(ready))
            .fallback(|| async { (StatusCode::NOT_FOUND, "There is nothing here.\n") })
            .method_not_allowed_fallback(|| async {
                (StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD.\n")
            })
            .layer(from_fn_with_state(site.clone(), guarded))
            .with_state(site)
    }
}

/// Checks the path of `--web.telemetry-path`.
pub fn telemetry_path(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    let taken = ["/", "/api/v1/runs", "/-/healthy", "/-/ready"];
    if !text.starts_with('/') || !text.chars().all(plain) {
        Err("expected a path such as /metrics, of letters, digits, and -_.~".to_owned())
    } else if taken.contains(&text) || text.starts_with("/runbooks/") {
        Err("something else is there".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// Lets in whom the web configuration lets in, and sets the headers of every answer.
async fn guarded(Extract(site): Extract<Site>, request: Request, next: Next) -> Response {
    let refused = |status: StatusCode, why: &'static str| (status, why).into_response();
    let Ok(rules) = site.guard.rules() else {
        return refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The web configuration file is bad; the exporter's own log says why.\n",
        );
    };
    let authorization = request.headers().get(header::AUTHORIZATION);
    let mut answer = if !site.guard.in_time(rules.rate, (site.clock)()) {
        refused(
            StatusCode::TOO_MANY_REQUESTS,
            "More requests than rate_limit allows.\n",
        )
    } else if !site.keeper.admits(&rules.users, authorization).await {
        let mut answer = refused(StatusCode::UNAUTHORIZED, "Who are you?\n");
        let basic = HeaderValue::from_static("Basic realm=\"training-exporter\"");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, basic);
        answer
    } else if !request.body().is_end_stream() {
        refused(
            StatusCode::PAYLOAD_TOO_LARGE,
            "Nothing here takes a body.\n",
        )
    } else {
        next.run(request).await
    };
    let headers = answer.headers_mut();
    let usual = HEADERS.iter().chain(&rules.headers).cloned();
    usual.for_each(|(name, value)| drop(headers.insert(name, value)));
    answer
}

/// Answers only so many at a time; one counts until it is taken.
async fn limited(Extract(site): Extract<Site>, request: Request, next: Next) -> Response {
    match site.free.try_acquire_owned() {
        Ok(held) => next.run(request).await.map(|body| Answer::body(body, held)),
        Err(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "As many requests are under way as --web.max-requests allows.\n",
        )
            .into_response(),
    }
}

/// A browser runs no script of these pages, asks nobody for anything, and shows them in no frame. The style is known by
/// its digest; the icon is data.
static HEADERS: LazyLock<Vec<(HeaderName, HeaderValue)>> = LazyLock::new(|| {
    let style = STANDARD.encode(digest(&SHA256, page::STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let text = HeaderValue::from_static;
    vec![
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::try_from(policy).expect("base64 is text"),
        ),
        (header::X_CONTENT_TYPE_OPTIONS, text("nosniff")),
        (header::X_FRAME_OPTIONS, text("deny")),
        (header::REFERRER_POLICY, text("no-referrer")),
        (header::CACHE_CONTROL, text("no-store")),
    ]
});

async fn status(
    Extract(site): Extract<Site>,
    Query(asked): Query<page::Asked>,
) -> (StatusCode, Html<String>) {
    let view = site.view();
    let status = match asked.is_there(&view) {
        true => StatusCode::OK,
        false => StatusCode::NOT_FOUND,
    };
    (status, Html(page::render(&view, &asked)))
}

async fn runs(Extract(site): Extract<Site>) -> Json<Value> {
    Json(site.view().json())
}

/// A runbook as text: at three in the morning, on a network without a way out, it is where the hung run is.
async fn runbook(Path(name): Path<String>) -> Result<&'static str, StatusCode> {
    let file = RUNBOOKS.get_file(format!("{name}.md"));
    file.and_then(|file| file.contents_utf8())
        .ok_or(StatusCode::NOT_FOUND)
}

async fn ready(Extract(site): Extract<Site>) -> (StatusCode, &'static str) {
    if site.shared.lock().exporter.ready {
        (StatusCode::OK, "Ready.\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "The logs have not been looked at yet.\n",
        )
    }
}

async fn metrics(Extract(site): Extract<Site>) -> Response {
    match TextEncoder::new().encode_to_string(&site.registry.gather()) {
        Ok(page) => (
            [(
                header::CONTENT_TYPE,
                format!("{TEXT_FORMAT}; charset=utf-8"),
            )],
            page,
        )
            .into_response(),
        Err(e) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the page cannot be written: {e}\n"),
        )
            .into_response(),
    }
}

impl Site {
    fn view(&self) -> View {
        let now = (self.clock)();
        let mut state = self.shared.lock();
        state.check_stall(now);
        View::of(&state, now)
    }
}

/// Renders one snapshot of the state at each scrape: labels that are gone are gone from the page.
struct Scrape {
    shared: Shared,
    clock: fn() -> Unix,
    descriptions: Vec<Desc>,
}

impl Collector for Scrape {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.shared.lock().families((self.clock)())
    }
}

fn descriptions() -> Vec<Desc> {
    let describe = |entry: crate::metric::Entry| {
        let labels = entry.labels.iter().map(|&label| label.to_owned()).collect();
        Desc::new(
            entry.name.to_owned(),
            entry.help.to_owned(),
            labels,
            Default::default(),
        )
    };
    all_metrics()
        .into_iter()
        .map(|entry| describe(entry).expect("rows have valid names"))
        .collect()
}
