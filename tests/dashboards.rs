//! The dashboards in `grafana/`: they are what their source says, keep the rules of Grafana's dashboard-linter, name only
//! what exists, and show the right values, asked of a real Prometheus after a night that a scenario has written.
//!
//! `DASHBOARDS=write cargo test --test dashboards` writes the JSON anew.

#![expect(clippy::disallowed_methods, reason = "it starts Prometheus")]

#[path = "dashboards/lint.rs"]
mod lint;
#[path = "dashboards/made.rs"]
mod made;
#[path = "dashboards/prometheus.rs"]
mod prometheus;
#[path = "dashboards/source.rs"]
mod source;
mod support;
#[path = "dashboards/values.rs"]
mod values;
#[path = "dashboards/words.rs"]
mod words;
#[path = "dashboards/world.rs"]
mod world;

use std::fs;
use std::path::PathBuf;
use std::sync::Once;

use serde_json::Value;
use source::NAMES;

fn path(name: &str) -> PathBuf {
    PathBuf::from(format!("grafana/dashboards/training-{name}.json"))
}

/// What the source of a dashboard makes.
fn made(name: &str) -> String {
    let made = made::dashboard(&source::board(name));
    serde_json::to_string_pretty(&made).expect("JSON") + "\n"
}

/// The JSON of a dashboard, written anew before anything reads it if that is wanted.
fn json(name: &str) -> String {
    static WRITTEN: Once = Once::new();
    WRITTEN.call_once(|| {
        if std::env::var_os("DASHBOARDS").is_some() {
            for name in NAMES {
                fs::write(path(name), made(name)).expect("written");
            }
        }
    });
    fs::read_to_string(path(name)).unwrap_or_else(|e| panic!("{}: {e}", path(name).display()))
}

/// A dashboard as Grafana loads it.
fn shipped(name: &str) -> Value {
    serde_json::from_str(&json(name)).unwrap_or_else(|e| panic!("{}: {e}", path(name).display()))
}

/// Panels that show something, without headings.
fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    let panels = dashboard["panels"].as_array().expect("panels");
    panels.iter().filter(|panel| panel["type"] != "row")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn the_json_is_what_the_source_says() {
    for name in NAMES {
        assert!(
            json(name) == made(name),
            "{}: not what grafana/{name}.yaml says; DASHBOARDS=write cargo test --test dashboards writes it",
            path(name).display()
        );
    }
}
