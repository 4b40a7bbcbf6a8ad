//! Times as people write them.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A length of time, or a time since the beginning, in seconds; what was before it is negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Time(pub f64);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl Visitor<'_> for Words {
            type Value = Time;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("seconds, or a time such as 90s, 15m or 1h30m")
            }
            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Time, E> {
                Ok(Time(seconds))
            }
            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Time, E> {
                Ok(Time(seconds as f64))
            }
            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Time, E> {
                Ok(Time(seconds as f64))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
                time(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Words)
    }
}

/// Reads `1h30m` and the like.
fn time(text: &str) -> Option<Time> {
    if let Some(before) = text.strip_prefix('-') {
        return time(before).map(|Time(seconds)| Time(-seconds));
    }
    let mut seconds = 0.0;
    let mut number = String::new();
    for c in text.chars() {
        let unit = match c {
            '0'..='9' | '.' => {
                number.push(c);
                continue;
            }
            's' => 1.0,
            'm' => 60.0,
            'h' => 3600.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * unit;
        number.clear();
    }
    (number.is_empty() && !text.is_empty()).then_some(Time(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_write_them() {
        for (text, seconds) in [
            ("90s", Some(90.0)),
            ("1h30m", Some(5400.0)),
            ("2.5m", Some(150.0)),
            ("-2h", Some(-7200.0)),
            ("5", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(time(text).map(|time| time.0), seconds, "{text}");
        }
    }
}
