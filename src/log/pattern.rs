//! A pattern of a preset: checked when it is read, built when a line may match it for the first time. Most presets read
//! no log of this node, and to build all of their patterns takes longer than to read megabytes.

use std::sync::OnceLock;

use memchr::memmem::Finder;
use regex_automata::meta::Regex;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, Input};
use regex_syntax::ast::ErrorKind;
use regex_syntax::hir::{Hir, HirKind, Look};

use super::sieve::needs::Needs;

/// A pattern has at most so many groups.
const GROUPS: usize = 16;
/// A match that begins with a literal of so many bytes is looked for where that literal is.
const LONG: usize = 3;

/// A pattern, in the ASCII sense.
#[derive(Debug)]
pub(super) struct Pattern {
    /// As its author wrote it.
    pub(super) written: String,
    text: String,
    regex: OnceLock<Regex>,
    pub(super) needs: Needs,
    /// What each match begins with, where that is one literal.
    head: Option<Finder<'static>>,
    /// The captures that have a name, by their numbers.
    names: Vec<(usize, String)>,
    /// Groups, the whole match among them.
    groups: usize,
}

/// What a match took.
pub(super) struct Taken<'a> {
    pattern: &'a Pattern,
    text: &'a str,
    slots: &'a [Option<NonMaxUsize>],
}

impl<'a> Taken<'a> {
    fn group(&self, index: usize) -> Option<&'a str> {
        let (start, end) = (self.slots[2 * index]?, self.slots[2 * index + 1]?);
        self.text.get(start.get()..end.get())
    }

    /// The text of the capture of that name, where there is one.
    pub(super) fn name(&self, name: &str) -> Option<&'a str> {
        let mut names = self.pattern.names.iter();
        self.group(names.find(|(_, known)| known == name)?.0)
    }

    /// All of the match.
    pub(super) fn all(&self) -> &'a str {
        self.group(0).unwrap_or_default()
    }

    /// The captures that took something, by their names.
    pub(super) fn captures(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let names = self.pattern.names.iter();
        names.filter_map(|(index, name)| Some((name.as_str(), self.group(*index)?)))
    }
}

impl Pattern {
    /// Checks it; the error says where it is wrong.
    pub(super) fn parse(written: &str) -> Result<Self, String> {
        let text = ascii(written);
        // What is wrong is told of what its author wrote.
        let wrong = |e| told(&regex_syntax::parse(written).err().unwrap_or(e));
        let hir = regex_syntax::parse(&text).map_err(wrong)?;
        let properties = hir.properties();
        let groups = 1 + properties.explicit_captures_len();
        if groups > GROUPS {
            return Err(format!(
                "more than {} groups; (?:..) is one that takes nothing",
                GROUPS - 1
            ));
        }
        let mut names = Vec::new();
        named(&hir, &mut names);
        Ok(Self {
            written: written.to_owned(),
            text,
            regex: OnceLock::new(),
            needs: Needs::of(&hir),
            head: head(&hir).map(|literal| Finder::new(literal).into_owned()),
            names,
            groups,
        })
    }

    /// Builds it now; what is too large is refused.
    pub(super) fn build(&self) -> Result<(), String> {
        let regex = Regex::new(&self.text).map_err(|e| match e.size_limit() {
            Some(limit) => {
                format!("too large: built, it takes more than {limit} bytes; repeat less")
            }
            None => e.to_string(),
        })?;
        self.regex.get_or_init(|| regex);
        Ok(())
    }

    fn regex(&self) -> &Regex {
        self.regex.get_or_init(|| {
            Regex::new(&self.text).unwrap_or_else(|e| panic!("pattern {}: {e}", self.written))
        })
    }

    /// The names of its captures.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(_, name)| name.as_str())
    }

    /// It has a capture of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|(_, known)| known == name)
    }

    /// It matches somewhere.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex().is_match(text)
    }

    /// The matches, one behind the other, that end behind `seen`, as long as `each` wants more.
    pub(super) fn matches(
        &self,
        text: &str,
        seen: usize,
        each: &mut dyn FnMut(&Taken<'_>) -> bool,
    ) {
        let mut slots = [None; 2 * GROUPS];
        let slots = &mut slots[..2 * self.groups];
        // A match that is one word, and ends in the new part, begins behind the last blank before it.
        let mut from = match text.as_bytes().get(..=seen) {
            Some(old) if seen > 0 && self.needs.one_word => memchr::memrchr(b' ', old).unwrap_or(0),
            Some(_) | None => 0,
        };
        while self.next(text, from, slots) {
            let (Some(start), Some(end)) = (slots[0], slots[1]) else {
                return;
            };
            let (start, end) = (start.get(), end.get());
            // An empty match behind another is none.
            let new = end > seen && !(start == end && start == from && from > 0);
            let taken = Taken {
                pattern: self,
                text,
                slots,
            };
            if new && !each(&taken) {
                return;
            }
            from = if start < end { end } else { end + 1 };
            while !text.is_char_boundary(from) && from < text.len() {
                from += 1;
            }
        }
    }

    /// Finds the first match at `from` or behind it.
    fn next(&self, text: &str, mut from: usize, slots: &mut [Option<NonMaxUsize>]) -> bool {
        if from > text.len() {
            return false;
        }
        let Some(head) = &self.head else {
            let input = Input::new(text).span(from..text.len());
            return self.regex().search_slots(&input, slots).is_some();
        };
        while let Some(at) = head.find(&text.as_bytes()[from..]) {
            from += at;
            let input = Input::new(text)
                .span(from..text.len())
                .anchored(Anchored::Yes);
            if self.regex().search_slots(&input, slots).is_some() {
                return true;
            }
            from += 1;
        }
        false
    }
}

/// The literal that each match begins with. What is anchored is found faster without.
fn head(hir: &Hir) -> Option<&[u8]> {
    let mut parts = std::slice::from_ref(hir);
    if let HirKind::Concat(all) = hir.kind() {
        parts = all;
    }
    let bound = |part: &&Hir| matches!(part.kind(), HirKind::Look(Look::WordAscii));
    match parts.iter().find(|part| !bound(part))?.kind() {
        HirKind::Literal(literal) if literal.0.len() >= LONG => Some(&literal.0),
        HirKind::Empty
        | HirKind::Literal(_)
        | HirKind::Class(_)
        | HirKind::Look(_)
        | HirKind::Repetition(_)
        | HirKind::Capture(_)
        | HirKind::Concat(_)
        | HirKind::Alternation(_) => None,
    }
}

/// What to do without look-around.
const AROUND: &str = "; match what stands there, too, or say in `unless:` what may not";

/// What is wrong with a pattern, and below it the pattern with a mark where.
fn told(e: &regex_syntax::Error) -> String {
    let (what, pattern, span) = match e {
        regex_syntax::Error::Parse(e) => {
            let around = *e.kind() == ErrorKind::UnsupportedLookAround;
            let way = if around { AROUND } else { "" };
            (format!("{}{way}", e.kind()), e.pattern(), e.span())
        }
        regex_syntax::Error::Translate(e) => (e.kind().to_string(), e.pattern(), e.span()),
        _ => return e.to_string(),
    };
    let (before, rest) = pattern.split_at(span.start.offset);
    let before = before.rsplit('\n').next().unwrap_or_default();
    let after = rest.split('\n').next().unwrap_or_default();
    let wrong = pattern[span.start.offset..span.end.offset].chars();
    let mark = "^".repeat(wrong.take_while(|&c| c != '\n').count().max(1));
    let blanks = " ".repeat(before.chars().count());
    format!("{what}\n    {before}{after}\n    {blanks}{mark}")
}

fn named(hir: &Hir, names: &mut Vec<(usize, String)>) {
    match hir.kind() {
        HirKind::Capture(capture) => {
            let name = capture
                .name
                .as_ref()
                .map(|name| (capture.index as usize, name.to_string()));
            names.extend(name);
            named(&capture.sub, names);
        }
        HirKind::Repetition(repetition) => named(&repetition.sub, names),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().for_each(|part| named(part, names))
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => {}
    }
}

/// The pattern with `\b`, `\d`, `\s` and `\w` in their ASCII sense. Logs count in ASCII, and a Unicode word boundary
/// would take the fast engines away from every line with a bar's glyphs in it.
fn ascii(pattern: &str) -> String {
    let mut plain = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('b') => plain.push_str(r"(?-u:\b)"),
            Some('d') => plain.push_str("[0-9]"),
            Some('s') => plain.push_str(r"[\t ]"),
            Some('w') => plain.push_str("[0-9A-Za-z_]"),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push('\\'),
        }
    }
    plain
}
