//! The report for people: the verdict first, then what moved, who stands where, and what to run next. What comes from a
//! log, a path or a process cannot steer the terminal.

use std::fmt::Write;

use super::report::{Diagnosis, Process, Report, Witness};
use crate::web::words::grouped;

/// So many processes have a line of their own; ranks come before their workers.
const SHOWN: usize = 24;

/// The text of a report.
pub(super) fn text(report: &Report) -> String {
    let mut text = String::new();
    if report.runs.is_empty() {
        line(&mut text, &format!("No run: {}", plain(&report.note)));
        return text;
    }
    for run in &report.runs {
        tell(&mut text, run);
    }
    let seconds = format!("{:.0} s", report.seconds);
    line(
        &mut text,
        &match report.source {
            "exporter" => format!(
                "Looked for {seconds}; the verdict is that of the exporter at {}.",
                plain(&report.exporter)
            ),
            _ => format!(
                "Looked for {seconds} without an exporter: {}.",
                plain(&report.note)
            ),
        },
    );
    if report.source == "exporter" && !report.note.is_empty() {
        line(&mut text, &plain(&report.note));
    }
    for spot in &report.cannot_see {
        line(&mut text, &format!("Not seen: {}", plain(spot)));
    }
    text
}

fn tell(text: &mut String, run: &Diagnosis) {
    line(
        text,
        &format!("{}: {}", plain(&run.run), plain(&run.headline)),
    );
    line(
        text,
        &format!(
            "  how sure: {}; exit code {}",
            run.sure.name(),
            run.exit_code
        ),
    );
    for why in &run.why {
        line(text, &format!("  - {}", plain(why)));
    }
    if !run.because.is_empty() {
        line(text, &format!("  - {}", plain(&run.because)));
    }
    line(text, "\n  witness      moved        before         after");
    for witness in &run.witnesses {
        line(text, &row(witness));
    }
    if !run.processes.is_empty() {
        line(
            text,
            "\n  pid       rank  state  waits in                      cpu   faults      read   written",
        );
        for process in run.processes.iter().take(SHOWN) {
            line(text, &stand(process));
        }
        if run.processes.len() > SHOWN {
            line(
                text,
                &format!("  and {} more: --json has all", run.processes.len() - SHOWN),
            );
        }
    }
    if !run.next.is_empty() {
        line(text, "\n  Next:");
        for next in &run.next {
            line(
                text,
                &format!("    {}\n        # {}", plain(&next.command), next.why),
            );
        }
    }
    line(text, "");
}

fn row(witness: &Witness) -> String {
    let moved = match witness.moved {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    };
    let number =
        |value: Option<f64>| value.map_or("-".to_owned(), |value| amount(value, &witness.unit));
    format!(
        "  {:<12} {moved:<5} {:>13} {:>13}  {}",
        witness.witness,
        number(witness.before),
        number(witness.after),
        witness.unit
    )
}

fn stand(process: &Process) -> String {
    let number =
        |value: Option<f64>, unit| value.map_or("-".to_owned(), |value| amount(value, unit));
    let rank = match (process.rank, process.worker) {
        (_, true) => "worker".to_owned(),
        (Some(rank), false) => rank.to_string(),
        (None, false) => "-".to_owned(),
    };
    format!(
        "  {:<9} {rank:<6} {}     {:<26} {:>6} {:>8} {:>9} {:>9}",
        process.pid,
        process.state,
        plain(process.waits_in.as_deref().unwrap_or("-")),
        number(process.cpu_seconds, "seconds"),
        number(process.page_faults, "faults"),
        number(process.read_bytes, "bytes"),
        number(process.written_bytes, "bytes"),
    )
}

fn amount(value: f64, unit: &str) -> String {
    match unit {
        "seconds" | "ratio" => format!("{value:.2}"),
        "watts" => format!("{value:.0}"),
        _ => grouped(value as u64),
    }
}

fn line(text: &mut String, words: &str) {
    // A string takes whatever is written.
    let _ = writeln!(text, "{words}");
}

/// Without anything that a terminal would obey.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(
            super::plain("a\x1b[2Jb\r\u{9b}c"),
            "a\\u{1b}[2Jb\\r\\u{9b}c"
        );
    }
}
