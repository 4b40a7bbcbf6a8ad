//! What every page must keep, whatever it shows.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde_json::Value;

use super::chromium::{Chromium, Tab};

/// All that a page must keep, at the width of a phone and of a desk, by day and by night.
pub(crate) fn check(chromium: &mut Chromium, tab: &Tab, name: &str) {
    for (scheme, width) in [
        ("light", 1100),
        ("dark", 1100),
        ("light", 360),
        ("dark", 360),
    ] {
        chromium.window(tab, width, 1.0, scheme);
        let place = format!("{name}, {scheme}, {width} px");
        let wide = chromium.value(tab, "document.documentElement.scrollWidth");
        assert!(
            wide.as_u64() <= Some(u64::from(width)),
            "{place}: it is {wide} wide"
        );
        match findings(chromium, tab) {
            Some(found) => assert_eq!(found, Value::Array(Vec::new()), "{place}"),
            None => {
                let _ = writeln!(
                    io::stderr(),
                    "no axe-core here: {place} is checked without it"
                );
            }
        }
        let picture = chromium.picture(tab, None);
        keep(&format!("{name}-{scheme}-{width}.png"), &picture);
    }
    outline(chromium, tab, name);
}

/// Nothing was said on the console, and nobody but the page's own host was asked.
pub(crate) fn quiet(chromium: &mut Chromium, tab: &Tab, origin: &str) {
    for kind in [
        "Runtime.exceptionThrown",
        "Runtime.consoleAPICalled",
        "Log.entryAdded",
    ] {
        let said = chromium.heard(tab, kind);
        assert!(said.is_empty(), "{kind}: {said:?}");
    }
    let asked = chromium.heard(tab, "Network.requestWillBeSent");
    assert!(!asked.is_empty(), "the page itself was asked for");
    for request in asked {
        let url = request["request"]["url"].as_str().expect("an address");
        assert!(
            url.starts_with(&format!("{origin}/")) || url.starts_with("data:"),
            "{url} is not of this host"
        );
    }
}

/// The words that a screen reader would say, of these roles.
pub(crate) fn spoken(chromium: &mut Chromium, tab: &Tab, roles: &[&str]) -> Vec<Value> {
    let tree = chromium.tell(tab, "Accessibility.getFullAXTree", serde_json::json!({}));
    let nodes = tree["nodes"].as_array().expect("a tree").clone();
    nodes
        .into_iter()
        .filter(|node| node["ignored"] != true)
        .filter(|node| roles.iter().any(|role| node["role"]["value"] == *role))
        .collect()
}

/// Landmarks, a language, and headings in order.
fn outline(chromium: &mut Chromium, tab: &Tab, name: &str) {
    for role in ["banner", "main", "contentinfo", "navigation"] {
        let found = spoken(chromium, tab, &[role]).len();
        assert_eq!(found, 1, "{name}: {role}");
    }
    let mut before = 0;
    for heading in spoken(chromium, tab, &["heading"]) {
        let level = heading["properties"]
            .as_array()
            .and_then(|all| all.iter().find(|p| p["name"] == "level"))
            .and_then(|p| p["value"]["value"].as_u64())
            .expect("a level");
        assert!(
            level <= before + 1,
            "{name}: {heading} after level {before}"
        );
        before = level;
    }
    assert_eq!(
        chromium.value(tab, "document.documentElement.lang"),
        "en",
        "{name}"
    );
    for drawing in spoken(chromium, tab, &["image", "img"]) {
        let words = drawing["name"]["value"].as_str().unwrap_or_default();
        assert!(
            !words.is_empty(),
            "{name}: a drawing without words: {drawing}"
        );
    }
}

/// What axe-core finds, contrast above all; nothing where it is not installed.
pub(crate) fn findings(chromium: &mut Chromium, tab: &Tab) -> Option<Value> {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/node_modules/axe-core/axe.min.js");
    let script = fs::read_to_string(script).ok()?;
    chromium.value(tab, &format!("{script}; typeof axe"));
    Some(chromium.value(
        tab,
        "axe.run(document).then(found => found.violations.map(v => v.id + ': ' + v.help + ' ' + \
         v.nodes.map(n => n.target.join(' ') + ' ' + n.failureSummary).join(' | ')))",
    ))
}

/// Keeps a picture in `target/browser`.
pub(crate) fn keep(name: &str, picture: &[u8]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("target")
        .join("browser");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(name), picture).expect("written");
}
