//! What is wrong with a YAML file: where, and in its author's words.
//!
//! What a form forbids is told by its reader, with the place. What is found later is sought by its path, such as
//! `rules[1].when`: the file is read once more as far as there. So both are told alike, and no form carries places.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess,
    Visitor,
};
use serde_yaml::Value;

/// One thing that is wrong: `line:column: what`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wrong {
    line: usize,
    column: usize,
    what: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

/// What to do about what YAML's own messages leave open.
const WAYS: [(&str, &str); 4] = [
    (
        "did not find expected key",
        "look above it for a quote that is not closed, and at the indentation",
    ),
    (
        "found character that cannot start any token",
        "indent with blanks, not with tabs, and quote what begins with such a character",
    ),
    (
        "found unknown escape character",
        "write it in single quotes, where a backslash is only itself",
    ),
    (
        "mapping values are not allowed",
        "quote what has a colon in it, and look at the indentation",
    ),
];

impl Wrong {
    /// The text has not the form that is asked for.
    pub fn form(e: &serde_yaml::Error) -> Self {
        // Where nothing tells the place, the whole file is meant.
        let (line, column) = e.location().map_or((1, 1), |at| (at.line(), at.column()));
        let place = format!(" at line {line} column {column}");
        let mut what = e.to_string().replacen(&place, "", 1);
        let way = WAYS.iter().find(|(told, _)| what.starts_with(told));
        if let Some((_, way)) = way {
            what = format!("{what}; {way}");
        }
        Self { line, column, what }
    }

    /// What stands at the path is wrong; the empty path is the whole file.
    pub fn at(yaml: &str, path: &str, what: &str) -> Self {
        let found = part::<Raised>(yaml, path).and_then(|_| part::<Raised>(yaml, ""));
        let Self { line, column, .. } = found.expect_err("raised");
        let what = match path {
            "" => what.to_owned(),
            path => format!("{path}: {what}"),
        };
        Self { line, column, what }
    }

    /// Each once, as they stand in the file.
    pub fn in_order(mut all: Vec<Self>) -> Vec<Self> {
        all.sort();
        all.dedup();
        all
    }
}

/// The entries of the list at the top of a file that is not right as a whole.
pub fn entries<T: DeserializeOwned>(yaml: &str, list: &str) -> Vec<Result<T, Wrong>> {
    let whole: Value = serde_yaml::from_str(yaml).unwrap_or_default();
    let count = whole
        .get(list)
        .and_then(Value::as_sequence)
        .map_or(0, Vec::len);
    (0..count)
        .filter_map(|n| part(yaml, &format!("{list}[{n}]")).transpose())
        .collect()
}

/// A name that nobody knows, and those that there are.
pub fn unknown(kind: &str, name: &str, known: &[&str]) -> String {
    /// As alike as a word and the same one misspelt.
    const ALIKE: f64 = 0.85;
    let alike = |known: &&str| strsim::jaro_winkler(known, name);
    let nearest = known
        .iter()
        .copied()
        .max_by(|a, b| alike(a).total_cmp(&alike(b)));
    let all = known.join(", ");
    match nearest.filter(|nearest| alike(nearest) >= ALIKE) {
        Some(nearest) => format!("no {kind} `{name}`; did you mean `{nearest}`? There are {all}"),
        None => format!("no {kind} `{name}`; there are {all}"),
    }
}

/// The part of a file at a path, where there is one.
fn part<T: DeserializeOwned>(yaml: &str, path: &str) -> Result<Option<T>, Wrong> {
    Walk::<T>(path, PhantomData)
        .deserialize(serde_yaml::Deserializer::from_str(yaml))
        .map_err(|e| Wrong::form(&e))
}

/// What separates the steps of a path.
const MARKS: [char; 3] = ['.', '[', ']'];

/// The way to a part: the rest of its path.
struct Walk<'p, T>(&'p str, PhantomData<T>);

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Walk<'_, T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        let path = self.0.trim_start_matches(MARKS);
        if path.is_empty() {
            return T::deserialize(deserializer).map(Some);
        }
        let (step, rest) = path.split_at(path.find(MARKS).unwrap_or(path.len()));
        deserializer.deserialize_any(Step {
            step,
            rest: Walk(rest, PhantomData),
        })
    }
}

/// One step of it.
struct Step<'p, T> {
    step: &'p str,
    rest: Walk<'p, T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Step<'_, T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "something with `{}` in it", self.step)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<T>, A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == self.step {
                let found = map.next_value_seed(self.rest)?;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                return Ok(found);
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<T>, A::Error> {
        for _ in 0..self.step.parse().unwrap_or(0) {
            list.next_element::<IgnoredAny>()?;
        }
        let found = list.next_element_seed(self.rest)?.flatten();
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

/// Takes nothing, so that its place is told.
#[derive(Debug)]
struct Raised;

impl<'de> Deserialize<'de> for Raised {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Nothing;
        impl Visitor<'_> for Nothing {
            type Value = Raised;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("nothing")
            }
        }
        deserializer.deserialize_any(Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_with_the_place_of_its_path() {
        let yaml = "# first\nname: x\nrules:\n  - { when: 'a', emit: [epoch, { phase: y }] }\n  - when: 'b'\n";
        for (path, place) in [
            ("", "2:1"),
            ("name", "2:7"),
            ("rules", "4:3"),
            ("rules[0]", "4:5"),
            ("rules[0].emit[1].phase", "4:41"),
            ("rules[1].when", "5:11"),
            ("rules[7].when", "2:1"),
            ("absent", "2:1"),
        ] {
            let told = Wrong::at(yaml, path, "no").to_string();
            let at = if path.is_empty() { "" } else { ": " };
            assert_eq!(told, format!("{place}: {path}{at}no"));
        }
    }
}
