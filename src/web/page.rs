//! The status page: a view -> HTML. It needs no script and nothing from outside, and refreshes itself.

use std::fmt::Write;

use super::view::{Clock, GpuView, RunView, View, grouped};
use crate::job::verdict::Seconds;

/// The page.
pub fn render(view: &View) -> String {
    let mut html = String::with_capacity(16 * 1024);
    let worst = ["critical", "warning"]
        .into_iter()
        .find(|level| view.runs.iter().any(|run| run.level == *level));
    let title = match worst {
        Some(level) => format!(
            "{} {level}: ",
            view.runs.iter().filter(|run| run.level == level).count()
        ),
        None => String::new(),
    };
    let _ = write!(
        html,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><meta http-equiv=\"refresh\" content=\"2\">\
         <link rel=\"icon\" href=\"data:,\"><title>{}training-exporter</title><style>{STYLE}</style></head><body>\
         <header><h1>training-exporter</h1><nav><a href=\"/metrics\">metrics</a> <a href=\"/api/v1/runs\">json</a></nav>\
         </header><main>",
        escape(&title),
    );
    for run in &view.runs {
        card(&mut html, run);
    }
    if !view.blind_spots.is_empty() {
        html += "<section class=\"blind\"><h2>What it cannot see</h2><ul>";
        for spot in &view.blind_spots {
            let _ = write!(html, "<li>{}</li>", escape(spot));
        }
        html += "</ul></section>";
    }
    let _ = write!(
        html,
        "</main><footer>version {}, as of {} UTC, refreshed every 2 s</footer></body></html>",
        escape(view.version),
        time_of_day(view.now)
    );
    html
}

fn card(html: &mut String, run: &RunView) {
    let _ = write!(
        html,
        "<article class=\"{}\"><h2>{}</h2><p class=\"verdict\"><span class=\"mark\">{}</span> {}</p>\
         <p class=\"because\">{}</p>",
        run.level,
        escape(&run.run),
        match run.level {
            "critical" => "ACT",
            "warning" => "LOOK",
            "unknown" => "-",
            _ => "OK",
        },
        escape(&run.headline),
        escape(&run.because),
    );
    if let Some(validation) = run
        .validation
        .filter(|validation| validation.total.is_some())
    {
        let percent = validation.ratio.map(|ratio| 100.0 * ratio);
        let label = match (percent, validation.total) {
            (Some(percent), Some(total)) => {
                format!(
                    "{percent:.1} % ({} of {})",
                    grouped(validation.done),
                    grouped(total)
                )
            }
            _ => format!("{} so far", grouped(validation.done)),
        };
        bar(
            html,
            "Validation",
            percent,
            &format!("{label}, from {}", from(validation.source)),
            "progress",
        );
    }
    for (name, clock) in [
        ("Since last progress", run.progress),
        ("Since last work", run.work),
    ] {
        if let Some(Clock {
            age,
            ceiling,
            learned,
        }) = clock
        {
            let whence = if learned { ", learned" } else { "" };
            let text = format!("{} of {} allowed{whence}", Seconds(age), Seconds(ceiling));
            let class = if age > ceiling { "clock over" } else { "clock" };
            bar(
                html,
                name,
                Some((100.0 * age / ceiling).min(100.0)),
                &text,
                class,
            );
        }
    }
    html.push_str("<dl>");
    let mut fact = |name: &str, value: String| {
        let _ = write!(
            html,
            "<div><dt>{name}</dt><dd>{}</dd></div>",
            escape(&value)
        );
    };
    let of = |done: Option<u64>, all: Option<u64>| match (done, all) {
        (Some(done), Some(all)) => format!("{} of {}", grouped(done), grouped(all)),
        (Some(done), None) => grouped(done),
        (None, _) => "unknown".to_owned(),
    };
    let age = run
        .phase_age
        .map_or_else(String::new, |age| format!(", for {}", Seconds(age)));
    fact("Phase", format!("{}{age}", run.phase));
    fact("Epoch", of(run.epoch, run.epochs));
    fact("Step", of(run.step, run.steps));
    let hits = match run.recompile_limit_hits {
        0 => String::new(),
        n => format!(", limit hit by {n}"),
    };
    fact("Recompiles", format!("{}{hits}", grouped(run.recompiles)));
    fact(
        "Processes",
        run.processes.map_or_else(|| "not seen".to_owned(), grouped),
    );
    let written = run
        .log
        .last_write_age
        .map_or_else(|| "never".to_owned(), |age| format!("{} ago", Seconds(age)));
    fact(
        "Log last written",
        if run.log.up {
            written
        } else {
            "cannot be read".to_owned()
        },
    );
    for (name, value) in [
        ("User", &run.user),
        ("Team", &run.team),
        ("Log", &run.log.path),
    ] {
        if !value.is_empty() {
            fact(name, value.clone());
        }
    }
    if !run.framework.is_empty() {
        fact("Framework", run.framework.clone());
    }
    html.push_str("</dl>");
    if !run.gpus.is_empty() {
        html.push_str("<ul class=\"gpus\">");
        run.gpus.iter().for_each(|gpu| tile(html, gpu));
        html.push_str("</ul>");
    }
    html.push_str("</article>");
}

fn bar(html: &mut String, name: &str, percent: Option<f64>, text: &str, class: &str) {
    let width = percent.unwrap_or(0.0).clamp(0.0, 100.0);
    let _ = write!(
        html,
        "<div class=\"bar {class}\" role=\"meter\" aria-label=\"{name}\" aria-valuemin=\"0\" aria-valuemax=\"100\" \
         aria-valuenow=\"{width:.1}\"><span class=\"name\">{name}</span><span class=\"track\"><i style=\"width:{width:.1}%\">\
         </i></span><span class=\"text\">{}</span></div>",
        escape(text),
    );
}

fn tile(html: &mut String, gpu: &GpuView) {
    let percent = gpu
        .util
        .map_or_else(|| "-".to_owned(), |util| format!("{:.0} %", 100.0 * util));
    let watts = gpu
        .power_watts
        .map_or_else(|| "-".to_owned(), |watts| format!("{watts:.0} W"));
    let _ = write!(
        html,
        "<li class=\"{}\"><b>GPU {}</b><span>{percent}</span><span>{watts}</span><em>{}</em></li>",
        gpu.state, gpu.gpu, gpu.state
    );
}

fn from(source: &str) -> &'static str {
    match source {
        "files" => "the files opened",
        "log" => "the log",
        _ => "nothing",
    }
}

/// Unix seconds as a time of the day.
fn time_of_day(now: f64) -> String {
    let seconds = now as u64 % 86_400;
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Text that came from a log, a process or a path is text here, whatever is in it.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

const STYLE: &str = include_str!("page.css");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Phase;
    use crate::job::cadence::Limits;
    use crate::job::observation::{Observation, Progress};
    use crate::state::{Run, State};

    fn state() -> State {
        let mut run = Run::new("<script>alert(1)</script>", Limits::default());
        run.log.up = true;
        run.alive = true;
        for said in [
            Observation::Epoch {
                epoch: 1,
                of: Some(2),
            },
            Observation::Phase(Phase::Validation),
            Observation::Validation(Progress {
                done: 1204,
                of: Some(1866),
            }),
        ] {
            run.job.apply(said, 1000.0);
        }
        let mut state = State::default();
        state.runs.insert(run.name.clone(), run);
        state
    }

    #[test]
    fn what_a_run_is_called_cannot_become_html() {
        let page = render(&View::of(&state(), 1002.0));
        assert!(
            !page.contains("<script") && page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
            "{page}"
        );
        assert!(
            !page.contains("http:") && !page.contains("https:"),
            "the page asks nothing of other hosts"
        );
    }

    #[test]
    fn the_headline_tells_how_far_the_validation_is() {
        let view = View::of(&state(), 1002.0);
        assert_eq!(
            view.runs[0].headline,
            "Validating: 1,204 of 1,866 batches, the last one 2.0 s ago"
        );
        assert!(render(&view).contains("64.5 % (1,204 of 1,866), from the log"));
    }

    #[test]
    fn an_empty_node_says_what_to_do() {
        let page = render(&View::of(&State::default(), 0.0));
        assert!(
            page.contains("No run was found. Start the exporter with --log.path"),
            "{page}"
        );
    }
}
