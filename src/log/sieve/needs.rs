//! What the text that a pattern matches cannot be without.

use regex_syntax::hir::{Class, Hir, HirKind};

/// At most so many literals, one of which a pattern needs.
const WIDE: usize = 16;
/// A class of more characters is none to enumerate.
const FEW: usize = 4;
/// A literal of so many bytes is worth asking for beside others.
const LONG: usize = 3;
/// Of each pattern so many are asked for.
const GROUPS: usize = 8;
/// Literals in lower case, one of which is needed.
type Group = Vec<Vec<u8>>;

/// What a pattern needs, and what it cannot match.
#[derive(Clone, Debug)]
pub(in crate::log) struct Needs {
    /// From each group one literal, at least.
    pub(super) groups: Vec<Group>,
    /// No match has a blank in it, nor is one empty.
    pub(in crate::log) one_word: bool,
}

impl Needs {
    /// Of a pattern.
    pub(in crate::log) fn of(hir: &Hir) -> Self {
        let mut groups = needs(hir);
        groups.retain(|group| strength(group) > 0);
        groups.sort_by_key(|group| {
            std::cmp::Reverse((strength(group), std::cmp::Reverse(group.len())))
        });
        groups.dedup();
        let long = groups
            .iter()
            .take_while(|group| strength(group) >= LONG)
            .count();
        groups.truncate(long.clamp(1, GROUPS));
        Self {
            groups,
            one_word: hir.properties().minimum_len().is_some_and(|n| n > 0) && !has_blank(hir),
        }
    }
}

/// How much a group tells: the length of its shortest literal.
fn strength(group: &Group) -> usize {
    group.iter().map(Vec::len).min().unwrap_or(0)
}

/// The groups without which nothing matches.
fn needs(hir: &Hir) -> Vec<Group> {
    if let Some(group) = exact(hir) {
        return vec![group];
    }
    match hir.kind() {
        HirKind::Capture(capture) => needs(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => needs(&repetition.sub),
        HirKind::Concat(parts) => {
            let (mut groups, mut run) = (Vec::new(), vec![Vec::new()]);
            for part in parts {
                match exact(part).and_then(|next| joined(&run, &next)) {
                    Some(longer) => run = longer,
                    None => {
                        groups.push(std::mem::replace(&mut run, vec![Vec::new()]));
                        groups.extend(needs(part));
                    }
                }
            }
            groups.push(run);
            groups
        }
        HirKind::Alternation(ways) => {
            let best = |way: &Hir| needs(way).into_iter().max_by_key(strength);
            let ways: Option<Vec<Group>> = ways.iter().map(best).collect();
            ways.map(|ways| ways.concat())
                .filter(|group| group.len() <= WIDE)
                .into_iter()
                .collect()
        }
        HirKind::Empty
        | HirKind::Literal(_)
        | HirKind::Class(_)
        | HirKind::Look(_)
        | HirKind::Repetition(_) => Vec::new(),
    }
}

/// All that this can match, in lower case, if that is little.
fn exact(hir: &Hir) -> Option<Group> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(vec![Vec::new()]),
        HirKind::Literal(literal) => Some(vec![literal.0.to_ascii_lowercase()]),
        HirKind::Class(Class::Unicode(class)) => {
            let ranges = class.ranges().iter();
            let all = ranges.flat_map(|range| range.start()..=range.end());
            let mut group: Group = all
                .take(FEW + 1)
                .map(|c| c.to_ascii_lowercase().to_string().into_bytes())
                .collect();
            let few = (1..=FEW).contains(&group.len());
            group.sort_unstable();
            group.dedup();
            few.then_some(group)
        }
        HirKind::Capture(capture) => exact(&capture.sub),
        HirKind::Concat(parts) => parts
            .iter()
            .try_fold(vec![Vec::new()], |run, part| joined(&run, &exact(part)?)),
        HirKind::Alternation(ways) => {
            let ways: Option<Vec<Group>> = ways.iter().map(exact).collect();
            ways.map(|ways| ways.concat())
                .filter(|group| group.len() <= WIDE)
        }
        HirKind::Class(Class::Bytes(_)) | HirKind::Repetition(_) => None,
    }
}

/// Each of the one before each of the other, if those are not too many.
fn joined(run: &Group, next: &Group) -> Option<Group> {
    (run.len() * next.len() <= WIDE).then(|| {
        let pairs = run
            .iter()
            .flat_map(|a| next.iter().map(move |b| [a.as_slice(), b].concat()));
        pairs.collect()
    })
}

/// A match may have a blank in it.
fn has_blank(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => false,
        HirKind::Literal(literal) => literal.0.contains(&b' '),
        HirKind::Class(Class::Unicode(class)) => class
            .ranges()
            .iter()
            .any(|r| (r.start()..=r.end()).contains(&' ')),
        HirKind::Class(Class::Bytes(class)) => class
            .ranges()
            .iter()
            .any(|r| (r.start()..=r.end()).contains(&b' ')),
        HirKind::Repetition(repetition) => has_blank(&repetition.sub),
        HirKind::Capture(capture) => has_blank(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(has_blank),
    }
}

#[cfg(test)]
mod tests {
    use crate::log::pattern::Pattern;

    fn groups(pattern: &str) -> Vec<Vec<String>> {
        let pattern = Pattern::parse(pattern).expect("a good pattern");
        let text = |literal: &Vec<u8>| String::from_utf8_lossy(literal).into_owned();
        let groups = pattern.needs.groups.iter();
        groups
            .map(|group| group.iter().map(text).collect())
            .collect()
    }

    #[test]
    fn what_a_pattern_needs() {
        for (pattern, needed) in [
            (r"^ *\d{1,3}%\|[^|]*\| *(?<step>\d+)/", &[&["%|"][..]][..]),
            (r"\btrain/loss=(?<value>[-+\w.]+)", &[&["train/loss="]]),
            (
                r"^(?:Testing|Predicting): *100%",
                &[&["testing:", "predicting:"], &["100%"]],
            ),
            (
                r"Epoch \d+.*[ ,]val(?:id)?[_/]loss",
                &[&["epoch "], &["_loss", "/loss"], &[" val", ",val"]],
            ),
            // The long s and the Kelvin sign are letters, too.
            (
                "(?i)mask",
                &[&["ma\u{17f}k", "ma\u{17f}\u{212a}", "mask", "mas\u{212a}"]],
            ),
            (r"a?b*\d+", &[]),
            (r"x|\d", &[]),
        ] {
            let mut groups = groups(pattern);
            groups.iter_mut().for_each(|group| group.sort());
            let mut needed: Vec<Vec<&str>> = needed.iter().map(|group| group.to_vec()).collect();
            needed.iter_mut().for_each(|group| group.sort_unstable());
            assert_eq!(groups, needed, "{pattern}");
        }
    }
}
