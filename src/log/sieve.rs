//! Which of many patterns may match a line at all? Each needs certain literals, and one pass over the line's bytes
//! looks for all of them at once, so that most lines cost that pass and nothing else.
//!
//! It never loses a match: a pattern of which no literal is known is always let through, and what is let through still
//! has to match. Case is not told apart.

pub(super) mod needs;

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::DFA;

use super::lines::Line;
use needs::Needs;

/// A text that may go on is remembered up to this length.
const KEPT: usize = 8 * 1024;

/// Looks for what the patterns need.
#[derive(Debug)]
pub(super) struct Sieve {
    literals: DFA,
    start: StateID,
    /// For each literal the patterns that ask for it, and the bit of its group there.
    askers: Vec<Vec<(u32, u8)>>,
    /// For each pattern the bits of all its groups.
    whole: Vec<u8>,
    one_word: Vec<bool>,
    /// Those that ask for nothing.
    always: Vec<u32>,
}

/// What was found in one line, and in what it may go on from.
#[derive(Clone, Debug, Default)]
pub(super) struct Sifted {
    /// For each pattern the bits of the groups that were found, and the patterns of which any was.
    found: Vec<u8>,
    touched: Vec<u32>,
    /// The newest line, and the state at its end.
    text: String,
    state: Option<StateID>,
    passed: Vec<u32>,
}

impl Sieve {
    /// For these patterns.
    pub(super) fn new<'a>(patterns: impl Iterator<Item = &'a Needs>) -> Self {
        let (mut literals, mut askers) = (Vec::<&[u8]>::new(), Vec::<Vec<(u32, u8)>>::new());
        let (mut whole, mut one_word, mut always) = (Vec::new(), Vec::new(), Vec::new());
        for (pattern, needs) in (0..).zip(patterns) {
            for (group, literal) in (0..)
                .zip(&needs.groups)
                .flat_map(|(i, g)| g.iter().map(move |l| (i, l)))
            {
                let known = literals.iter().position(|known| known == literal);
                let index = known.unwrap_or_else(|| {
                    literals.push(literal);
                    askers.push(Vec::new());
                    literals.len() - 1
                });
                askers[index].push((pattern, 1 << group));
            }
            whole.push(needs.groups.iter().fold(0, |bits: u8, _| bits << 1 | 1));
            one_word.push(needs.one_word);
            if needs.groups.is_empty() {
                always.push(pattern);
            }
        }
        let literals = DFA::builder()
            .ascii_case_insensitive(true)
            .prefilter(false)
            .build(&literals)
            .expect("a few short literals");
        let start = literals.start_state(Anchored::No).expect("unanchored");
        Self {
            literals,
            start,
            askers,
            whole,
            one_word,
            always,
        }
    }

    /// The patterns that may match this line, or what it has more than before, in their order.
    pub(super) fn sift<'a>(&self, sifted: &'a mut Sifted, line: &Line<'_>) -> &'a [u32] {
        let Sifted {
            found,
            touched,
            text,
            state,
            passed,
        } = sifted;
        let bytes = line.text.as_bytes();
        // A line that grew is read from where it ended.
        let goes_on =
            !text.is_empty() && line.seen == text.len() && bytes.starts_with(text.as_bytes());
        let from = if goes_on { text.len() } else { 0 };
        let mut at = state.filter(|_| goes_on).unwrap_or(self.start);
        // The words before a blank are over.
        if !goes_on || bytes.get(from) == Some(&b' ') {
            touched.retain(|&pattern| {
                let keep = goes_on && !self.one_word[pattern as usize];
                if !keep {
                    found[pattern as usize] = 0;
                }
                keep
            });
        }
        found.resize(self.whole.len(), 0);
        let mut rest = &bytes[from..];
        while let Some(behind) = self.next(&mut at, rest) {
            for i in 0..self.literals.match_len(at) {
                let literal = self.literals.match_pattern(at, i);
                for &(pattern, bit) in &self.askers[literal.as_usize()] {
                    let bits = &mut found[pattern as usize];
                    if *bits == 0 {
                        touched.push(pattern);
                    }
                    *bits |= bit;
                }
            }
            rest = behind;
        }
        if !goes_on {
            text.clear();
        }
        if bytes.len() <= KEPT {
            text.push_str(&line.text[from..]);
        } else {
            text.clear();
        }
        *state = Some(at);
        passed.clear();
        passed.extend(&self.always);
        passed.extend(
            touched
                .iter()
                .filter(|&&p| found[p as usize] == self.whole[p as usize]),
        );
        passed.sort_unstable();
        passed
    }

    /// What stands behind the next literal; the state is then that of its end.
    #[inline(never)]
    fn next<'a>(&self, state: &mut StateID, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let mut at = *state;
        let found = bytes.iter().position(|&byte| {
            at = self.literals.next_state(Anchored::No, at, byte);
            self.literals.is_special(at) && self.literals.is_match(at)
        });
        *state = at;
        found.map(|end| &bytes[end + 1..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::pattern::Pattern;

    #[test]
    fn a_line_that_grows_is_read_on_from_where_it_ended() {
        let patterns = [r"\blr=(?<value>\w+)", r"loss=.*step=\d", r"\d"];
        let patterns = patterns.map(|pattern| Pattern::parse(pattern).expect("a good pattern"));
        let sieve = Sieve::new(patterns.iter().map(|pattern| &pattern.needs));
        let mut sifted = Sifted::default();
        let mut sift = |text: &str, seen| {
            let (end, rank, nested) = (0, None, false);
            let line = Line {
                text,
                seen,
                end,
                rank,
                nested,
            };
            sieve.sift(&mut sifted, &line).to_vec()
        };
        assert_eq!(sift("loss=1, lr=3, st", 0), [0, 2]);
        assert_eq!(
            sift("loss=1, lr=3, step=4", 16),
            [0, 1, 2],
            "the word went on"
        );
        assert_eq!(
            sift("loss=1, lr=3, step=4 x", 20),
            [1, 2],
            "the old word is over"
        );
        assert_eq!(sift("another", 5), [2], "no part of the one before");
        assert_eq!(
            sift("LOSS=1 STEP=2", 0),
            [1, 2],
            "case is the pattern's business"
        );
    }
}
