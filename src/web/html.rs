//! Text as HTML and as part of an address, whatever is in it.

use std::fmt::Write;

/// Text that came from a log, a process or a path is text here.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if c.is_control() => safe.push(' '),
            // What turns the direction of the text around it would let a name rewrite the verdict beside it.
            '\u{61c}'
            | '\u{200e}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                safe.push(char::REPLACEMENT_CHARACTER);
            }
            c => safe.push(c),
        }
    }
    safe
}

/// The address of the page that shows only this run.
pub(super) fn address(run: &str) -> String {
    let mut address = "/?run=".to_owned();
    for byte in run.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            address.push(char::from(byte));
        } else {
            let _ = write!(address, "%{byte:02X}");
        }
    }
    address
}

/// A bar that is filled by so many percent. What it shows stands beside it in words.
pub(super) fn meter(percent: f64, class: &str) -> String {
    let width = percent.clamp(0.0, 100.0);
    format!(
        "<svg class=\"meter {class}\" viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect width=\"{width:.1}\" height=\"1\"/></svg>"
    )
}

/// Unix seconds as a time of the day.
pub(super) fn time_of_day(at: f64) -> String {
    let seconds = at.max(0.0) as u64 % 86_400;
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}
