//! How often Dynamo compiled code again, as far as its tags `[frame/attempt]` tell.
//!
//! The highest attempt of a frame is how often that frame was compiled again, so a limit warning alone gives a lower
//! bound, a repeated line counts once, and eight ranks that recompile alike count as one: the highest rank's number.

use std::collections::{BTreeMap, BTreeSet};

use super::observation::Recompile;

/// At most so many frames are remembered; a run with more is beyond counting.
const FRAMES: usize = 4096;
/// A frame or a rank whose number is longer, in bytes, is none.
const NUMBER: usize = 64;

/// The recompilations of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recompiles {
    attempts: BTreeMap<(String, String), u64>,
    limits: BTreeSet<(String, String)>,
}

impl Recompiles {
    /// A frame was compiled again.
    pub fn again(&mut self, said: Recompile) {
        if said.by.len().max(said.frame.len()) > NUMBER {
            return;
        }
        let key = (said.by, said.frame);
        if self.attempts.len() < FRAMES || self.attempts.contains_key(&key) {
            let attempt = self.attempts.entry(key).or_default();
            *attempt = said.attempt.max(*attempt);
        }
    }

    /// Dynamo gave up on a frame.
    pub fn limit(&mut self, said: Recompile) {
        let known = said.by.len().max(said.frame.len()) <= NUMBER;
        if known && self.limits.len() < FRAMES {
            self.limits.insert((said.by.clone(), said.frame.clone()));
        }
        self.again(said);
    }

    /// Recompilations of the rank that has most.
    pub fn count(&self) -> u64 {
        highest(
            self.attempts
                .iter()
                .map(|((by, _), &attempt)| (by, attempt)),
        )
    }

    /// Frames given up by the rank that has most.
    pub fn limit_hits(&self) -> u64 {
        highest(self.limits.iter().map(|(by, _)| (by, 1)))
    }
}

fn highest<'a>(counts: impl Iterator<Item = (&'a String, u64)>) -> u64 {
    let mut ranks = BTreeMap::new();
    for (by, count) in counts {
        *ranks.entry(by).or_insert(0) += count;
    }
    ranks.into_values().max().unwrap_or(0)
}
