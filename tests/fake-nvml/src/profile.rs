//! A number over time: a [`Profile`] is what one scenario line says, a [`History`] strings together
//! what the successive versions of that line said. Time is seconds of the scenario, never the clock.

/// A step function: constant, or steps at given seconds, perhaps repeated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profile {
    /// (from, value), ascending; the first is at 0. Before 0 the first value holds.
    steps: Vec<(f64, u64)>,
    /// Length of one round, seconds; longer than the last step's start.
    repeat: Option<f64>,
}

impl Profile {
    pub(crate) fn constant(value: u64) -> Self {
        Self {
            steps: vec![(0.0, value)],
            repeat: None,
        }
    }

    /// `VALUE`, or `@SECONDS VALUE ... [repeat SECONDS]`; `value` reads one value.
    pub(crate) fn parse(
        text: &str,
        value: impl Fn(&str) -> Result<u64, String>,
    ) -> Result<Self, String> {
        let mut words = text.split_whitespace().peekable();
        if words.peek().is_none_or(|word| !word.starts_with('@')) {
            return Ok(Self::constant(value(text)?));
        }
        let mut profile = Self {
            steps: Vec::new(),
            repeat: None,
        };
        while let Some(word) = words.next() {
            let operand = words
                .next()
                .ok_or_else(|| format!("nothing follows `{word}`"))?;
            let last = profile.steps.last().map(|(from, _)| *from);
            if let Some(from) = word.strip_prefix('@') {
                let from = seconds(from)?;
                match last {
                    None if from != 0.0 => return Err("the first step must be @0".into()),
                    Some(last) if from <= last => {
                        return Err(format!("`{word}` is not later than the step before it"));
                    }
                    _ => profile.steps.push((from, value(operand)?)),
                }
            } else if word == "repeat" {
                let length = seconds(operand)?;
                if last.is_none_or(|last| length <= last) {
                    return Err("`repeat` must be longer than the last step's start".into());
                }
                profile.repeat = Some(length);
                if let Some(extra) = words.next() {
                    return Err(format!("`{extra}` after `repeat`, which comes last"));
                }
            } else {
                return Err(format!("`{word}` is neither `@SECONDS` nor `repeat`"));
            }
        }
        Ok(profile)
    }

    /// The value at `t`.
    pub(crate) fn at(&self, t: f64) -> u64 {
        let t = self.repeat.map_or(t, |length| t.max(0.0) % length);
        let begun = self.steps.iter().take_while(|(from, _)| *from <= t).count();
        self.steps[begun.saturating_sub(1)].1
    }

    /// The value integrated from `from` to `to`, in value-seconds.
    fn area(&self, from: f64, to: f64) -> f64 {
        self.area_since_zero(to) - self.area_since_zero(from)
    }

    fn area_since_zero(&self, t: f64) -> f64 {
        match self.repeat {
            Some(length) if t > length => {
                let rounds = (t / length).floor();
                rounds * self.area_of_steps(length) + self.area_of_steps(t - rounds * length)
            }
            _ => self.area_of_steps(t),
        }
    }

    fn area_of_steps(&self, t: f64) -> f64 {
        if t < 0.0 {
            return t * self.steps[0].1 as f64;
        }
        let ends = self
            .steps
            .iter()
            .skip(1)
            .map(|(from, _)| *from)
            .chain([f64::INFINITY]);
        let spans = self.steps.iter().zip(ends);
        spans
            .map(|((from, value), end)| (t.min(end) - from).max(0.0) * *value as f64)
            .sum()
    }
}

/// What a line has said since the library was loaded, so that an edit of the scenario changes the
/// future only: samples and energy of the time before keep their values.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// (from, profile), ascending; the first has always held.
    parts: Vec<(f64, Profile)>,
}

impl History {
    pub(crate) fn new(profile: &Profile) -> Self {
        Self {
            parts: vec![(f64::NEG_INFINITY, profile.clone())],
        }
    }

    /// From `t` on, `profile` holds.
    pub(crate) fn follow(&mut self, t: f64, profile: &Profile) {
        if self.parts.last().is_some_and(|(_, last)| last != profile) {
            self.parts.push((t, profile.clone()));
        }
    }

    /// The value integrated from `from` to `to`, in value-seconds.
    pub(crate) fn area(&self, from: f64, to: f64) -> f64 {
        let ends = self
            .parts
            .iter()
            .skip(1)
            .map(|(from, _)| *from)
            .chain([f64::INFINITY]);
        let spans = self.parts.iter().zip(ends);
        spans
            .map(|((begin, profile), end)| (from.max(*begin), to.min(end), profile))
            .filter(|(begin, end, _)| begin < end)
            .map(|(begin, end, profile)| profile.area(begin, end))
            .sum()
    }
}

/// Seconds as a scenario writes them: `30`, `0.5`; finite and not negative.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
        .ok_or_else(|| format!("`{text}` is not a number of seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(text: &str) -> Result<Profile, String> {
        Profile::parse(text, |word| word.parse().map_err(|_| format!("`{word}`?")))
    }

    #[test]
    fn steps_hold_until_the_next_and_rounds_begin_again() {
        let steps = profile("@0 97 @30 0 @60 97").unwrap();
        let seen = [-5.0, 0.0, 29.9, 30.0, 60.0, 1e6].map(|t| steps.at(t));
        assert_eq!(seen, [97, 97, 97, 0, 97, 97]);
        assert_eq!(steps.area(20.0, 70.0), 97.0 * 20.0);

        let wave = profile("@0 0 @0.5 100 repeat 1.0").unwrap();
        assert_eq!([0.1, 0.6, 1.1, 41.6].map(|t| wave.at(t)), [0, 100, 0, 100]);
        assert_eq!(wave.area(3.0, 13.0), 500.0);
        assert_eq!(wave.area(0.25, 0.75), 25.0);
    }

    #[test]
    fn an_edit_changes_the_future_only() {
        let mut history = History::new(&profile("400").unwrap());
        history.follow(10.0, &profile("50").unwrap());
        history.follow(12.0, &profile("50").unwrap());
        assert_eq!(history.area(8.0, 14.0), 800.0 + 200.0);
        assert_eq!(history.area(-2.0, 0.0), 800.0);
        assert_eq!(history.parts.len(), 2);
    }

    #[test]
    fn a_bad_line_is_told() {
        for (text, why) in [
            ("@1 5", "the first step must be @0"),
            ("@0 5 @0 6", "`@0` is not later than the step before it"),
            ("@0 5 @3", "nothing follows `@3`"),
            (
                "@0 5 @3 6 repeat 3",
                "`repeat` must be longer than the last step's start",
            ),
            (
                "@0 5 repeat 3 @4 1",
                "`@4` after `repeat`, which comes last",
            ),
            ("@0 5 6 7", "`6` is neither `@SECONDS` nor `repeat`"),
            ("@zero 5", "`zero` is not a number of seconds"),
            ("many", "`many`?"),
        ] {
            assert_eq!(profile(text), Err(why.to_string()), "{text}");
        }
    }
}
