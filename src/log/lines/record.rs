//! A record that Rich wrapped over several physical lines, put together again.

use std::sync::LazyLock;

use regex::Regex;

/// The longest record that is kept together, in bytes: it is read anew with each of its lines. A step's metrics are a
/// third of it.
const RECORD: usize = 4 * 1024;

/// A record that Rich may have wrapped.
#[derive(Debug)]
pub(super) struct Record {
    /// The column in which its text begins, in each of its lines.
    indent: usize,
    /// The width of the text column, where the first line tells it.
    width: Option<usize>,
    pub(super) text: String,
    /// The last piece is a part of one word that filled its line: no blank follows it.
    pub(super) broken: bool,
}

impl Record {
    /// The first line of a record: time (or blanks where the second has not changed), level, text, file:line.
    pub(super) fn head(plain: &str) -> Option<Self> {
        static HEAD: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(
                r"^(?:\[[0-9:/., APM-]{5,24}\]|(?: {8,26})) (?:DEBUG   |INFO    |WARNING |ERROR   |CRITICAL) (?<text>\S.*?)(?<gap> +)(?<source>[\w.]+\.py:\d+)? *$",
            )
            .expect("a constant pattern")
        });
        if !may_be_head(plain.as_bytes()) {
            return None;
        }
        let found = HEAD.captures(plain)?;
        let text = found.name("text").expect("always there");
        let indent = text.start();
        let width = found.name("source").map(|source| {
            // One blank stands between the columns.
            plain[indent..source.start()]
                .chars()
                .count()
                .saturating_sub(1)
        });
        let broken = is_broken(text.as_str(), width);
        Some(Self {
            indent,
            width,
            text: text.as_str().to_owned(),
            broken,
        })
    }

    /// The text of a line that goes on with this record: it begins in the text's column, and the column of the source
    /// is blank.
    pub(super) fn continuation<'a>(&self, plain: &'a str) -> Option<&'a str> {
        let text = plain.get(self.indent..)?;
        let indented = plain.as_bytes()[..self.indent].iter().all(|&b| b == b' ');
        (indented && !text.starts_with(' ') && text.ends_with(' ')).then(|| text.trim_end())
    }

    pub(super) fn join(&mut self, piece: &str) {
        if self.text.len() + piece.len() > RECORD {
            self.text.clear();
        } else if !self.broken {
            self.text.push(' ');
        }
        self.text.push_str(piece);
        self.broken = is_broken(piece, self.width);
    }
}

/// A level stands behind what may be a time: a cheap look before the pattern's.
fn may_be_head(plain: &[u8]) -> bool {
    let window = &plain[..plain.len().min(28)];
    let time = match plain.first() {
        Some(b'[') => memchr::memchr(b']', window).map(|at| at + 1),
        Some(b' ') => window.iter().position(|&b| b != b' ').map(|at| at - 1),
        _ => None,
    };
    let level = time.and_then(|at| plain.get(at + 1..));
    level.is_some_and(|level| {
        let levels: [&[u8]; 5] = [b"DEBUG ", b"INFO ", b"WARNING ", b"ERROR ", b"CRITICAL "];
        levels.iter().any(|name| level.starts_with(name))
    })
}

/// Rich breaks a word only where it is longer than a line, and then fills the line with it.
fn is_broken(piece: &str, width: Option<usize>) -> bool {
    width.is_some_and(|width| piece.chars().count() == width) && !piece.contains(' ')
}
