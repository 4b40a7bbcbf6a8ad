//! The status page: a view -> HTML. It needs no script and nothing from outside, and refreshes itself.
//!
//! A few runs are shown whole. Of many, each has one row, those that need somebody first, and only these are unfolded:
//! the page stays small, and `/?run=NAME` has everything of one.

use std::fmt::Write;

use super::card::{self, counted, mark};
use super::html::{address, escape, time_of_day};
use super::view::{RunView, View};
use crate::job::verdict::reason::Seconds;

/// Up to so many runs are all shown whole.
const FEW: usize = 4;
/// Of more, so many that need somebody are.
const UNFOLDED: usize = 3;
/// And so many others are there to be unfolded.
const FOLDED: usize = 12;
/// The most rows of the overview.
const ROWS: usize = 500;
/// The most log patterns and blind spots that are named.
const NAMED: usize = 20;
/// Seconds between two pages.
const REFRESH: u32 = 5;

/// What a request asks of the page.
#[derive(Clone, Debug, Default, serde::Deserialize)]
pub struct Asked {
    /// Only this run.
    pub run: Option<String>,
    /// Anything: the page stays as it is.
    pub pause: Option<String>,
}

impl Asked {
    /// There is what is asked for.
    pub fn is_there(&self, view: &View) -> bool {
        let named = |name: &String| view.runs.iter().any(|run| run.run == *name);
        self.run.as_ref().is_none_or(named)
    }
}

/// The page.
pub fn render(view: &View, asked: &Asked) -> String {
    let mut html = String::with_capacity(32 * 1024);
    head(&mut html, view, asked);
    html.push_str("<main>");
    if !view.looking {
        blind(&mut html, view);
    }
    match &asked.run {
        Some(name) => one(&mut html, view, name),
        None => all(&mut html, view),
    }
    if !view.blind_spots.is_empty() {
        html.push_str(
            "<section class=\"spots\"><h2>What it cannot see, and how to mend that</h2><ul>",
        );
        items(&mut html, &view.blind_spots);
        html.push_str("</ul></section>");
    }
    html.push_str("</main>");
    foot(&mut html, view, asked);
    html
}

fn head(html: &mut String, view: &View, asked: &Asked) {
    let count = |level| view.runs.iter().filter(|run| run.level == level).count();
    let (color, title) = match (view.looking, count("critical"), count("warning")) {
        (false, _, _) => (WARNING, "blind: ".to_owned()),
        (true, 0, 0) if view.runs.is_empty() => (NEUTRAL, String::new()),
        (true, 0, 0) => (OK, String::new()),
        (true, 0, n) => (WARNING, format!("{n} to look at: ")),
        (true, n, _) => (CRITICAL, format!("{n} critical: ")),
    };
    let refresh = match asked.pause {
        Some(_) => String::new(),
        None => format!("<meta http-equiv=\"refresh\" content=\"{REFRESH}\">"),
    };
    let host = if view.host.is_empty() {
        String::new()
    } else {
        format!("<span>{}</span>", escape(&view.host))
    };
    let _ = write!(
        html,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">{refresh}\
         <link rel=\"icon\" href=\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E\
         %3Ccircle cx='4' cy='4' r='4' fill='%23{color}'/%3E%3C/svg%3E\">\
         <title>{title}training-exporter {}</title><style>{STYLE}</style></head><body>\
         <header><h1><a href=\"/\">training-exporter</a> {host}</h1>\
         <nav aria-label=\"Other forms\"><a href=\"/metrics\">Metrics</a> <a href=\"/api/v1/runs\">JSON</a></nav></header>",
        escape(&view.host),
    );
}

/// The colours of the icon, by which a tab is told from others.
const OK: &str = "1a7f4b";
const WARNING: &str = "b97f00";
const CRITICAL: &str = "d1242f";
const NEUTRAL: &str = "8b949e";

/// The logs are not looked at: whatever stands below is old, and so is that nothing stands there.
fn blind(html: &mut String, view: &View) {
    let text = if view.runs.is_empty() {
        "The logs have not been looked at yet, or do not answer: that no run is shown means nothing."
    } else {
        "The logs do not answer: nothing below is newer than their last answer."
    };
    let _ = write!(
        html,
        "<p class=\"alarm\" role=\"alert\"><b>Blind.</b> {text}</p>"
    );
}

fn one(html: &mut String, view: &View, name: &str) {
    html.push_str("<p class=\"back\"><a href=\"/\">All runs of this node</a></p>");
    match view.runs.iter().find(|run| run.run == name) {
        Some(run) => card::whole(html, run, 0, view.now),
        None => {
            let _ = write!(
                html,
                "<section class=\"empty\"><h2>No run of this name is known now</h2><p>{}</p></section>",
                escape(name)
            );
            if !view.runs.is_empty() {
                overview(html, view);
            }
        }
    }
}

fn all(html: &mut String, view: &View) {
    if view.runs.is_empty() {
        empty(html, view);
    } else if view.runs.len() <= FEW {
        for (n, run) in view.runs.iter().enumerate() {
            card::whole(html, run, n, view.now);
        }
    } else {
        overview(html, view);
        let (mut whole, mut folded) = (0, 0);
        for (n, run) in view.runs.iter().enumerate() {
            if whole < UNFOLDED && matches!(run.level, "critical" | "warning") {
                whole += 1;
                card::whole(html, run, n, view.now);
            } else if folded < FOLDED {
                folded += 1;
                let _ = write!(
                    html,
                    "<details class=\"fold\"><summary>{} <span>{}</span></summary>",
                    escape(&run.run),
                    escape(&run.title)
                );
                card::whole(html, run, n, view.now);
                html.push_str("</details>");
            }
        }
    }
}

fn overview(html: &mut String, view: &View) {
    let count = |level| view.runs.iter().filter(|run| run.level == level).count();
    let parts: Vec<String> = ["critical", "warning", "unknown", "ok"]
        .into_iter()
        .map(|level| (count(level), mark(level)))
        .filter(|(n, _)| *n > 0)
        .map(|(n, mark)| format!("{n} {}", mark.to_lowercase()))
        .collect();
    let _ = write!(
        html,
        "<section class=\"overview\"><h2>{}: {}</h2><ol>",
        counted(view.runs.len() as u64, "run"),
        parts.join(", ").replace(" ok", " OK")
    );
    view.runs.iter().take(ROWS).for_each(|run| row(html, run));
    html.push_str("</ol>");
    if let Some(more) = view.runs.len().checked_sub(ROWS).filter(|more| *more > 0) {
        let _ = write!(
            html,
            "<p>And {more} more, none of them worse: <a href=\"/api/v1/runs\">all as JSON</a>.</p>"
        );
    }
    html.push_str("</section>");
}

fn row(html: &mut String, run: &RunView) {
    let far = match run.validation.and_then(|validation| validation.ratio) {
        Some(ratio) => format!("{:.1} %", 100.0 * ratio),
        None => run
            .epoch
            .map_or_else(String::new, |epoch| format!("epoch {epoch}")),
    };
    let since = run.progress.map_or_else(String::new, |clock| {
        format!("progress {} ago", Seconds(clock.age))
    });
    let _ = write!(
        html,
        "<li class=\"{}\"><span class=\"mark\">{}</span> <a href=\"{}\">{}</a> <span>{}</span> <span>{far}</span> \
         <span>{since}</span></li>",
        run.level,
        mark(run.level),
        escape(&address(&run.run)),
        escape(&run.run),
        escape(&run.title),
    );
}

fn empty(html: &mut String, view: &View) {
    html.push_str("<section class=\"empty\"><h2>No run was found</h2>");
    if view.looks_for.is_empty() {
        html.push_str(
            "<p>No log is named, so nothing was looked at. Start the exporter with the path of a training's log, or a \
             pattern:</p><pre><code>training-exporter --log.path '/runs/*/train.log' --val.data /data/validation</code></pre>",
        );
    } else {
        html.push_str("<p>These were looked for, and are looked for on:</p><ul>");
        items(html, &view.looks_for);
        html.push_str(
            "</ul><p>A log that is there makes no run if its last byte is older than an hour and nobody writes it. Is the \
             path right, does this user see it, and does the training write to a file?</p>",
        );
    }
    html.push_str(
        "<p>To see what it shows, without a GPU or a training:</p><pre><code>training-exporter demo</code></pre></section>",
    );
}

fn items(html: &mut String, items: &[String]) {
    for item in items.iter().take(NAMED) {
        let _ = write!(html, "<li>{}</li>", escape(item));
    }
    if items.len() > NAMED {
        let _ = write!(html, "<li>and {} more</li>", items.len() - NAMED);
    }
}

fn foot(html: &mut String, view: &View, asked: &Asked) {
    let here = asked.run.as_deref().map(address);
    let (told, address, act) = match &asked.pause {
        Some(_) => (
            "It stays as it is.".to_owned(),
            here.unwrap_or_else(|| "/".to_owned()),
            "Refresh again",
        ),
        None => (
            format!("A new page comes every {REFRESH} s."),
            here.map_or_else(|| "/?pause=1".to_owned(), |here| here + "&pause=1"),
            "Pause",
        ),
    };
    let _ = write!(
        html,
        "<footer><p>As of {} UTC. {told} <a href=\"{}\">{act}</a></p><p>Version {}</p></footer></body></html>",
        time_of_day(view.now),
        escape(&address),
        escape(view.version),
    );
}

/// All that is in `<style>`; browsers are told its digest.
pub(super) const STYLE: &str = include_str!("page.css");

#[cfg(test)]
mod tests;
