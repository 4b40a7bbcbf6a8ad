//! The last hours of a run as a drawing: phases above, what its GPUs did below, on one axis; and the same as a table.
//!
//! Phases are drawn in percent of the width, so that their words are never squeezed. Nothing read is a gap; nothing done
//! is a line at the bottom.

use std::fmt::Write;

use super::html::{escape, time_of_day};
use super::view::{RunView, SpanView};
use super::words::mean;
use crate::job::Unix;
use crate::job::verdict::reason::Seconds;

/// The least time that is drawn, in seconds: a run of a moment would look like a long one.
const LEAST: f64 = 15.0;
/// A span narrower than this, in percent, has no room for its word.
const WORD: f64 = 9.0;
/// The newest so many phases stand in the table.
const ROWS: usize = 24;

/// The time that is drawn.
struct Axis {
    begin: Unix,
    end: Unix,
}

impl Axis {
    fn of(run: &RunView, now: Unix) -> Option<Self> {
        let begin = run.timeline.phases.first()?.begin;
        Some(Self {
            begin: begin.min(now - LEAST),
            end: now,
        })
    }

    /// The share of the axis before `at`.
    fn share(&self, at: Unix) -> f64 {
        ((at - self.begin) / (self.end - self.begin)).clamp(0.0, 1.0)
    }

    fn percent(&self, from: Unix, until: Unix) -> (f64, f64) {
        let (from, until) = (100.0 * self.share(from), 100.0 * self.share(until));
        (from, until - from)
    }
}

/// Draws the last hours of `run`. `id` is unique on the page.
pub(super) fn draw(html: &mut String, run: &RunView, id: &str, now: Unix) {
    let Some(axis) = Axis::of(run, now) else {
        return;
    };
    let length = Seconds(axis.end - axis.begin);
    let _ = write!(
        html,
        "<figure class=\"timeline\"><figcaption><h3>The last {length}</h3></figcaption>"
    );
    phases(html, run, id, &axis);
    let util = run.gpus.iter().filter_map(|gpu| gpu.util);
    let now_util = mean(util).map(|util| format!("{:.0} %", 100.0 * util));
    let watts = mean(run.gpus.iter().filter_map(|gpu| gpu.power_watts));
    let limit = mean(run.gpus.iter().filter_map(|gpu| gpu.power_limit_watts));
    let now_watts = watts.map(|watts| match limit {
        Some(limit) => format!("{watts:.0} W of {limit:.0} W"),
        None => format!("{watts:.0} W"),
    });
    let most = run.timeline.power_watts.iter().flatten();
    let most = limit.unwrap_or_else(|| most.fold(1.0, |a: f64, b| a.max(*b)));
    area(
        html,
        run,
        &axis,
        id,
        &Series {
            name: "GPU utilisation",
            class: "util",
            samples: &run.timeline.util,
            most: 1.0,
            now: now_util,
        },
    );
    area(
        html,
        run,
        &axis,
        id,
        &Series {
            name: "GPU power",
            class: "power",
            samples: &run.timeline.power_watts,
            most,
            now: now_watts,
        },
    );
    let _ = write!(
        html,
        "<p class=\"axis\"><span>{} UTC</span><span>now, {} UTC</span></p>",
        time_of_day(axis.begin),
        time_of_day(axis.end),
    );
    table(html, run, now);
    html.push_str("</figure>");
}

fn phases(html: &mut String, run: &RunView, id: &str, axis: &Axis) {
    let old = !run.log.up;
    let told = match run.phase_age {
        Some(age) => format!("{} for {}", run.phase, Seconds(age)),
        None => run.phase.to_owned(),
    };
    let told = if old {
        format!("{told}, as last known")
    } else {
        told
    };
    let _ = write!(
        html,
        "<p class=\"band\"><span>Phase</span><b>{told}</b></p>\
         <svg class=\"phases\" role=\"img\" aria-labelledby=\"{id}-pt {id}-pd\"><title id=\"{id}-pt\">Phases</title>\
         <desc id=\"{id}-pd\">{told}. The table below has all.</desc>{HATCH}",
    );
    for span in &run.timeline.phases {
        let (x, width) = axis.percent(span.begin, span.end.unwrap_or(axis.end));
        if width < 0.05 {
            continue;
        }
        let class = if old && span.end.is_none() {
            "old "
        } else {
            ""
        };
        let _ = write!(
            html,
            "<svg x=\"{x:.2}%\" width=\"{width:.2}%\" class=\"{class}p-{}\"><rect width=\"100%\" height=\"100%\"/>",
            span.phase
        );
        html.push_str("</svg>");
    }
    if let Some(silent) = stands_still(run) {
        let (x, width) = axis.percent(axis.end - silent, axis.end);
        let _ = write!(
            html,
            "<rect class=\"still\" x=\"{x:.2}%\" width=\"{width:.2}%\" height=\"100%\" fill=\"url(#hatch)\"/>"
        );
    }
    for span in &run.timeline.phases {
        let (x, width) = axis.percent(span.begin, span.end.unwrap_or(axis.end));
        if width >= WORD {
            let _ = write!(
                html,
                "<svg x=\"{x:.2}%\" width=\"{width:.2}%\"><text x=\"8\" y=\"19\">{}</text></svg>",
                span.phase
            );
        }
    }
    html.push_str("</svg>");
}

/// For how long nothing has moved, where that is too long.
fn stands_still(run: &RunView) -> Option<f64> {
    let late = matches!(run.level, "critical" | "warning") && run.log.up;
    run.progress
        .filter(|clock| late && clock.age > clock.ceiling)
        .map(|clock| clock.age)
}

/// Lines over what stands still: it is told by form as well as by colour. One definition serves all drawings.
const HATCH: &str = "<defs><pattern id=\"hatch\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" \
    patternTransform=\"rotate(45)\"><rect width=\"2\" height=\"7\"/></pattern></defs>";

struct Series<'a> {
    name: &'a str,
    class: &'a str,
    samples: &'a [Option<f64>],
    /// What fills the height.
    most: f64,
    now: Option<String>,
}

fn area(html: &mut String, run: &RunView, axis: &Axis, id: &str, series: &Series<'_>) {
    let Series {
        name,
        class,
        samples,
        ..
    } = *series;
    let now = series.now.as_deref().unwrap_or("-");
    let average = mean(samples.iter().flatten().copied()).map_or_else(String::new, |mean| {
        format!(
            " Its mean was {:.0} % of what it can be.",
            100.0 * mean / series.most
        )
    });
    let _ = write!(
        html,
        "<p class=\"band\"><span>{name}</span><b>{now}</b></p>\
         <svg class=\"area {class}\" role=\"img\" aria-labelledby=\"{id}-{class}t {id}-{class}d\" viewBox=\"0 0 1000 100\" \
         preserveAspectRatio=\"none\"><title id=\"{id}-{class}t\">{name}</title>\
         <desc id=\"{id}-{class}d\">Now {now}, mean of {} GPUs.{average}</desc><path d=\"",
        run.gpus.len(),
    );
    let x = |slot: usize| {
        let at = run.timeline.samples_begin + run.timeline.sample_seconds * slot as f64;
        (1000.0 * axis.share(at)).round()
    };
    let mut before = None;
    for (slot, sample) in samples.iter().enumerate() {
        // A line at the bottom is something: it was read, and it is 0.
        let y = sample.map(|value| (95.0 - 92.0 * (value / series.most).clamp(0.0, 1.0)).round());
        let _ = match (before, y) {
            (None, Some(y)) => write!(html, "M{} 100V{y}", x(slot)),
            (Some(before), Some(y)) if before != y => write!(html, "H{}V{y}", x(slot)),
            (Some(_), None) => write!(html, "H{}V100Z", x(slot)),
            (Some(_), Some(_)) | (None, None) => Ok(()),
        };
        before = y;
    }
    if before.is_some() {
        let _ = write!(html, "H{}V100Z", x(samples.len()));
    }
    html.push_str("\"/></svg>");
}

fn table(html: &mut String, run: &RunView, now: Unix) {
    html.push_str(
        "<details class=\"more\"><summary>The phases as a table</summary><table><thead><tr><th scope=\"col\">Phase</th>\
         <th scope=\"col\">Began (UTC)</th><th scope=\"col\">Took</th></tr></thead><tbody>",
    );
    for SpanView { phase, begin, end } in run.timeline.phases.iter().rev().take(ROWS) {
        let so_far = if end.is_none() { " so far" } else { "" };
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}{so_far}</td></tr>",
            escape(phase),
            time_of_day(*begin),
            Seconds(end.unwrap_or(now) - begin)
        );
    }
    html.push_str("</tbody></table></details>");
}
