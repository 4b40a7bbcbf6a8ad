//! Takes out of a line what only a terminal understands: CSI and OSC sequences (colours inside numbers, hyperlinks,
//! cursor moves), backspaces, and the NUL bytes that a truncated log leaves. The rest is decoded lossily, since torn
//! glyphs are normal where several processes write bars to one file.
//!
//! One move means something: a bar that is drawn below another puts the cursor up again when it is done.

use std::borrow::Cow;

const ESC: u8 = 0x1b;
const BELL: u8 = 0x07;

/// A line as a person reads it.
#[derive(Debug, PartialEq)]
pub struct Plain<'a> {
    /// Its text.
    pub text: Cow<'a, str>,
    /// The cursor goes up behind the text: a nested bar, under one that stands still.
    pub nested: bool,
}

/// The text of a line as a person reads it.
pub fn plain(raw: &[u8]) -> Plain<'_> {
    if memchr::memchr3(ESC, 0, 0x08, raw).is_none() {
        return Plain {
            text: decoded(raw),
            nested: false,
        };
    }
    let mut text = Vec::with_capacity(raw.len());
    let (mut nested, mut visible) = (false, false);
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        rest = match byte {
            ESC => {
                let length = sequence(after);
                nested |= visible && is_up(&after[..length]);
                &after[length..]
            }
            0 | 0x08 => after,
            _ => {
                visible |= byte != b' ';
                text.push(byte);
                after
            }
        };
    }
    Plain {
        text: Cow::Owned(
            String::from_utf8(text).unwrap_or_else(|e| decoded(e.as_bytes()).into_owned()),
        ),
        nested,
    }
}

/// Whole text is told at a glance, which the lossy decoder does not take.
fn decoded(raw: &[u8]) -> Cow<'_, str> {
    str::from_utf8(raw).map_or_else(|_| String::from_utf8_lossy(raw), Cow::Borrowed)
}

/// `ESC [ A`, with or without a number of lines.
fn is_up(sequence: &[u8]) -> bool {
    matches!(sequence, [b'[', lines @ .., b'A'] if lines.iter().all(u8::is_ascii_digit))
}

/// How many bytes after an ESC belong to its sequence. One that is cut off takes all that is there.
fn sequence(after: &[u8]) -> usize {
    let end_of = |from: usize, last: fn(&u8) -> bool| {
        after[from..]
            .iter()
            .position(last)
            .map_or(after.len(), |at| from + at + 1)
    };
    match after.first() {
        None => 0,
        Some(b'[') => end_of(1, |b| (0x40..=0x7e).contains(b)),
        Some(b']') => {
            let body = &after[1..];
            let bell = memchr::memchr(BELL, body).map(|at| at + 2);
            let string_end = memchr::memmem::find(body, b"\x1b\\").map(|at| at + 3);
            match (bell, string_end) {
                (Some(a), Some(b)) => a.min(b),
                (one, other) => one.or(other).unwrap_or(after.len()),
            }
        }
        Some(0x20..=0x2f) => end_of(0, |b| (0x30..=0x7e).contains(b)),
        Some(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn what_a_terminal_shows() {
        for (raw, text) in [
            (&b"plain"[..], "plain"),
            (b"epoch \x1b[1;36m1\x1b[0m/\x1b[1;36m2\x1b[0m", "epoch 1/2"),
            (b"0\x1b[0m\x1b[1;36m.035374", "0.035374"),
            (
                b"\x1b]8;id=1;file:///a/b.py#7\x1b\\b.py\x1b]8;;\x1b\\:7",
                "b.py:7",
            ),
            (b"\x1b]0;title\x07text", "text"),
            (b"\x1b[?25l\x1b[2KEpoch", "Epoch"),
            (b"\x1b(Bx\x1bMy", "xy"),
            (b"\x08\x08\x08 1/3", " 1/3"),
            (b"\0\0\0line", "line"),
            (b"cut \x1b[1;3", "cut "),
            (b"cut \x1b]8;;file", "cut "),
            (b"cut \x1b", "cut "),
            (b"\xe2\x96 10%|\x88\xff", "\u{fffd} 10%|\u{fffd}\u{fffd}"),
        ] {
            assert_eq!(plain(raw).text, text);
        }
    }

    #[test]
    fn a_bar_below_another_puts_the_cursor_up_behind_itself() {
        for (raw, nested) in [
            (&b"  1%|1 | 1/9 [00:00]\x1b[A"[..], true),
            (b"  1%|1 | 1/9 [00:00] \x1b[1A", true),
            (b"  1%|1 | 1/9 [00:00]", false),
            (b"      \x1b[A{'eval_loss': 1}", false),
            (b"\x1b[1A\x1b[2KEpoch 0", false),
            (b"\x1b[35mEpoch\x1b[0m", false),
        ] {
            assert_eq!(plain(raw).nested, nested, "{}", raw.escape_ascii());
        }
    }
}
