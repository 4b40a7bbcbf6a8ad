//! The door: what can be asked over HTTP. A request renders the state and touches nothing else.

mod card;
mod html;
pub mod page;
mod timeline;
pub mod view;
pub mod witness;
pub mod words;

use std::future::Future;

use axum::Router;
use axum::extract::{Path, Query, State as Extract};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Json, Response};
use axum::routing::get;
use include_dir::{Dir, include_dir};
use prometheus::core::{Collector, Desc};
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::MetricFamily;
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::job::Unix;
use crate::state::Shared;
use crate::state::metrics::all_metrics;
use view::View;

static RUNBOOKS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/alerts/runbooks");

/// What the handlers need.
#[derive(Clone)]
struct Door {
    shared: Shared,
    registry: Registry,
    clock: fn() -> Unix,
}

/// The routes. `clock` tells the time of a request.
pub fn router(shared: Shared, clock: fn() -> Unix) -> Router {
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
    Router::new()
        .route("/", get(status))
        .route("/metrics", get(metrics))
        .route("/api/v1/runs", get(runs))
        .route("/runbooks/{name}", get(runbook))
        .route("/-/healthy", get(|| async { "Healthy.\n" }))
        .route("/-/ready", get(ready))
        .with_state(Door {
            shared,
            registry,
            clock,
        })
}

/// Serves until `end` comes, and then until the requests under way are answered.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    end: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router)
        .with_graceful_shutdown(end)
        .await
}

async fn status(Extract(door): Extract<Door>, Query(asked): Query<page::Asked>) -> Html<String> {
    Html(page::render(&door.view(), &asked))
}

async fn runs(Extract(door): Extract<Door>) -> Json<Value> {
    Json(door.view().json())
}

/// A runbook as text: at three in the morning, on a network without a way out, it is where the hung run is.
async fn runbook(Path(name): Path<String>) -> Result<&'static str, StatusCode> {
    let file = RUNBOOKS.get_file(format!("{name}.md"));
    file.and_then(|file| file.contents_utf8())
        .ok_or(StatusCode::NOT_FOUND)
}

async fn ready(Extract(door): Extract<Door>) -> (StatusCode, &'static str) {
    if door.shared.lock().exporter.ready {
        (StatusCode::OK, "Ready.\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "The logs have not been looked at yet.\n",
        )
    }
}

async fn metrics(Extract(door): Extract<Door>) -> Response {
    match TextEncoder::new().encode_to_string(&door.registry.gather()) {
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

impl Door {
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
