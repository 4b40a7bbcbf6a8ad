//! One run on the page: verdict, what to do first, the last hours, clocks, witnesses, GPUs, and the rest of the facts.

use std::fmt::Write;

use super::html::{address, escape, meter};
use super::timeline;
use super::view::{Clock, GpuView, Processes, RunView};
use super::witness::Witness;
use super::words::{grouped, sentence};
use crate::job::Unix;
use crate::job::verdict::reason::Seconds;

/// How a level is told without colour.
pub(super) fn mark(level: &str) -> &'static str {
    match level {
        "critical" => "Act now",
        "warning" => "Look",
        "unknown" => "Not judged",
        _ => "OK",
    }
}

/// The whole card. `n` is its number on the page.
pub(super) fn whole(html: &mut String, run: &RunView, n: usize, now: Unix) {
    let id = format!("r{n}");
    let _ = write!(
        html,
        "<article class=\"{}\" aria-labelledby=\"{id}\">",
        run.level
    );
    head(html, run, &id);
    html.push_str("<div class=\"body\">");
    timeline::draw(html, run, &id, now);
    // A run that is over has nothing more to say.
    if !matches!(run.phase, "finished" | "failed") {
        html.push_str("<div class=\"pair\">");
        clocks(html, run);
        html.push_str("<section><h3>What the four witnesses say</h3><ul class=\"witnesses\">");
        run.witnesses.iter().for_each(|said| witness(html, said));
        html.push_str("</ul></section></div>");
    }
    if !run.gpus.is_empty() {
        html.push_str("<section><h3>GPUs</h3><ul class=\"gpus\">");
        run.gpus.iter().for_each(|gpu| tile(html, gpu));
        html.push_str("</ul></section>");
    }
    facts(html, run);
    html.push_str("</div></article>");
}

fn head(html: &mut String, run: &RunView, id: &str) {
    let whose: Vec<&str> = [&run.user, &run.team, &run.framework]
        .into_iter()
        .filter(|text| !text.is_empty())
        .map(String::as_str)
        .collect();
    let _ = write!(
        html,
        "<div class=\"verdict\"><h2 id=\"{id}\"><a href=\"{}\">{}</a></h2><p class=\"whose\">{}</p>\
         <p class=\"title\"><span class=\"mark\">{}</span> {}</p>",
        escape(&address(&run.run)),
        escape(&run.run),
        escape(&whose.join(" · ")),
        mark(run.level),
        escape(&run.title),
    );
    if !run.detail.is_empty() {
        let _ = write!(
            html,
            "<p class=\"detail\">{}.</p>",
            escape(&sentence(&run.detail))
        );
    }
    // Clocks of a log that is not read say nothing.
    if matches!(run.level, "critical" | "warning") && run.log.up && !run.because.is_empty() {
        let _ = write!(
            html,
            "<p class=\"because\"><b>Why:</b> {}.</p>",
            escape(&run.because)
        );
    }
    if let Some(step) = &run.first_step {
        let _ = write!(
            html,
            "<p class=\"first\"><b>First, on this node:</b> <code>{}</code> <a href=\"/runbooks/{}\">Runbook {}</a></p>",
            escape(&step.command),
            step.runbook,
            step.runbook,
        );
    }
    html.push_str("</div>");
}

fn clocks(html: &mut String, run: &RunView) {
    html.push_str("<section><h3>How far, and how long it may stand still</h3>");
    let of = |done: u64, all: Option<u64>| match all {
        Some(all) => format!("{} of {}", grouped(done), grouped(all)),
        None => grouped(done),
    };
    if let Some(validation) = run.validation {
        let percent = validation.ratio.map(|ratio| 100.0 * ratio);
        let text = match percent {
            Some(percent) => format!("{percent:.1} %"),
            None => format!("{} so far", grouped(validation.done)),
        };
        let after = match (validation.remaining_seconds, validation.source) {
            (Some(left), _) => format!("about {} to go", Seconds(left)),
            (None, "files") => "counted by the files opened".to_owned(),
            (None, _) => "as the log counts".to_owned(),
        };
        bar(html, "Validation", &text, &after, percent, "far");
    }
    if let Some(epoch) = run.epoch {
        bar(html, "Epoch", &of(epoch, run.epochs), "", None, "far");
    }
    if let Some(step) = run.step {
        let share = run.steps.map(|all| 100.0 * step as f64 / all.max(1) as f64);
        bar(html, "Step", &of(step, run.steps), "", share, "far");
    }
    let clocks = [
        ("Since last progress", run.progress),
        ("Since last work", run.work),
    ];
    for (name, clock) in clocks.into_iter().filter(|_| run.log.up) {
        let Some(Clock {
            age,
            ceiling,
            learned,
        }) = clock
        else {
            continue;
        };
        let over = age > ceiling;
        let whence = if learned { ", learned" } else { "" };
        let allowed = Seconds(ceiling);
        let after = if over {
            format!("over the allowed {allowed}{whence}")
        } else {
            format!("of {allowed} allowed{whence}")
        };
        let class = if over { "over" } else { "clock" };
        bar(
            html,
            name,
            &Seconds(age).to_string(),
            &after,
            Some(100.0 * age / ceiling),
            class,
        );
    }
    html.push_str("</section>");
}

fn bar(html: &mut String, name: &str, value: &str, after: &str, percent: Option<f64>, class: &str) {
    let _ = write!(
        html,
        "<div class=\"bar\"><p><span>{name}</span> <b>{}</b> <i>{}</i></p>{}</div>",
        escape(value.trim()),
        escape(after),
        percent.map_or_else(String::new, |percent| meter(percent, class)),
    );
}

fn witness(html: &mut String, said: &Witness) {
    let name = match said.witness {
        "log" => "Log",
        "processes" => "Processes",
        "gpus" => "GPUs",
        _ => "Validation files",
    };
    let says = match said.says {
        "unknown" => "not known yet",
        says => says,
    };
    let _ = write!(
        html,
        "<li class=\"{}\"><b>{name}</b> <span class=\"says\">{says}</span> <span>{}</span></li>",
        said.says,
        escape(&said.words)
    );
}

fn tile(html: &mut String, gpu: &GpuView) {
    let percent = gpu
        .util
        .map_or_else(|| "-".to_owned(), |util| format!("{:.0} %", 100.0 * util));
    let watts = gpu
        .power_watts
        .map_or_else(|| "-".to_owned(), |watts| format!("{watts:.0} W"));
    let gigabytes = |bytes: f64| bytes / 1e9;
    let memory = match (gpu.memory_used_bytes, gpu.memory_capacity_bytes) {
        (Some(used), Some(all)) => format!("{:.0} of {:.0} GB", gigabytes(used), gigabytes(all)),
        (Some(used), None) => format!("{:.0} GB", gigabytes(used)),
        (None, _) => String::new(),
    };
    let _ = write!(
        html,
        "<li class=\"{0}\"><b>GPU {1}</b> <em>{0}</em> <span>{percent}</span> <span>{watts}</span> <span>{memory}</span></li>",
        gpu.state, gpu.gpu
    );
}

fn facts(html: &mut String, run: &RunView) {
    html.push_str("<section><h3>Details</h3><dl>");
    let mut fact = |name: &str, value: String| {
        let _ = write!(
            html,
            "<div><dt>{name}</dt><dd>{}</dd></div>",
            escape(&value)
        );
    };
    fact("Processes", processes(run.processes, run.process.as_ref()));
    if let Some(pids) = run
        .process
        .as_ref()
        .map(|p| &p.pids)
        .filter(|pids| !pids.is_empty())
    {
        let named: Vec<String> = pids.iter().take(12).map(u32::to_string).collect();
        let more = if pids.len() > 12 { ", ..." } else { "" };
        fact("Process ids, ranks first", named.join(", ") + more);
    }
    let hits = match run.recompile_limit_hits {
        0 => String::new(),
        n => format!(", given up on {}", grouped(n)),
    };
    fact("Recompiles", format!("{}{hits}", grouped(run.recompiles)));
    let log = &run.log;
    if !log.path.is_empty() {
        fact("Log", log.path.clone());
    }
    let written = log
        .last_write_age
        .map_or_else(|| "never".to_owned(), |age| format!("{} ago", Seconds(age)));
    fact(
        "Last written",
        if log.up {
            written
        } else {
            "cannot be read".to_owned()
        },
    );
    fact(
        "Read",
        format!(
            "{} bytes, {} lines, {} of them understood",
            grouped(log.bytes),
            grouped(log.lines),
            grouped(log.lines_matched)
        ),
    );
    if log.lag_bytes > 0 {
        fact("Not read yet", format!("{} bytes", grouped(log.lag_bytes)));
    }
    if log.rotations > 0 {
        fact("Rotated", format!("{} times", grouped(log.rotations)));
    }
    html.push_str("</dl></section>");
}

fn processes(live: Option<u64>, more: Option<&Processes>) -> String {
    let (Some(live), Some(more)) = (live, more) else {
        return "not seen".to_owned();
    };
    let mut text = match (more.ranks, more.workers) {
        (Some(ranks), Some(workers)) => {
            format!(
                "{}: {}, {}",
                grouped(live),
                counted(ranks, "rank"),
                counted(workers, "loader worker")
            )
        }
        (_, _) => counted(live, "process"),
    };
    for (count, what) in [
        (more.stopped, "stopped"),
        (more.uninterruptible, "in uninterruptible sleep"),
        (more.stdout_blocked.unwrap_or(0), "blocked in stdout"),
    ] {
        if count > 0 {
            text += &format!(", {} {what}", grouped(count));
        }
    }
    text
}

/// So many of something.
pub(super) fn counted(count: u64, what: &str) -> String {
    let many = match count {
        1 => "",
        _ if what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {what}{many}", grouped(count))
}
