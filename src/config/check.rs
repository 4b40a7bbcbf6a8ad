//! What a config's form alone does not promise: what is wrong with its values, by their fields.

use std::path::Path;

use super::LogSource;
use crate::job::cadence::{Bound, Limits};
use crate::log::preset::wrong::unknown;
use crate::log::reader::Presets;

/// The longest name of a run, a user or a team, in bytes.
const LONGEST_NAME: usize = 512;

/// What is wrong with a source, by its fields.
pub(super) fn source(source: &LogSource, presets: &Presets) -> Vec<(&'static str, String)> {
    let mut wrong = Vec::new();
    if source.path.is_empty() {
        wrong.push(("path", "is empty; name a log, or a pattern".to_owned()));
    }
    let names = [
        ("run", source.run.as_deref()),
        ("user", Some(source.user.as_str())),
        ("team", Some(source.team.as_str())),
    ];
    for (field, name) in names {
        if name.is_some_and(|name| name.len() > LONGEST_NAME) {
            let what = "bytes, and would stand on every line of /metrics";
            wrong.push((field, format!("longer than {LONGEST_NAME} {what}")));
        }
    }
    if let Err(e) = glob::Pattern::new(&source.path)
        && !Path::new(&source.path).exists()
    {
        let what = format!("not a glob pattern: {e}; write `[*]` for a literal `*`");
        wrong.push(("path", what));
    }
    if let Some(name) = &source.preset {
        let chosen = presets.names();
        let chosen: Vec<&str> = chosen.split(", ").collect();
        let what = match presets.named(name) {
            None if name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml") => {
                Some(format!(
                    "no preset is called `{name}`; a file goes under `presets:`, and here goes its `name:`"
                ))
            }
            None => Some(unknown("preset", name, &chosen)),
            Some(preset) if preset.layer => Some(format!(
                "`{name}` speaks beside every other and cannot be chosen; choose among {}",
                chosen.join(", ")
            )),
            Some(_) => None,
        };
        wrong.extend(what.map(|what| ("preset", what)));
    }
    if source.val_files == Some(0) {
        let what = "0 is no number of files; leave it out if it is not known";
        wrong.push(("val_files", what.to_owned()));
    }
    wrong
}

/// Processes are looked at twelve times a window, so a shorter one would keep a core busy.
const SHORTEST_WINDOW: f64 = 1.0;
/// No limit is longer: a year, in seconds.
const LONGEST: f64 = 31_536_000.0;

/// What is wrong with the limits, by their names.
pub(super) fn limits(limits: &Limits) -> Vec<(String, String)> {
    // Every field by its name, so that a new one is not forgotten.
    let &Limits {
        train,
        validation,
        checkpoint,
        init,
        quiet,
        unseen_validation,
        work_window,
        patience,
        retention,
    } = limits;
    let bounds = [
        ("train", train),
        ("validation", validation),
        ("checkpoint", checkpoint),
        ("init", init),
        ("quiet", quiet),
    ];
    let lengths = [
        ("unseen_validation", unseen_validation),
        ("work_window", work_window),
        ("patience", patience),
        ("retention", retention),
    ];
    let both = bounds.iter().flat_map(|(name, bound)| {
        let lower = (format!("{name}.lower"), bound.lower);
        [lower, (format!("{name}.start"), bound.start)]
    });
    let all = both.chain(lengths.map(|(name, seconds)| (name.to_owned(), seconds)));
    let mut wrong: Vec<(String, String)> = all
        .filter_map(|(name, seconds)| {
            let what = if name == "work_window" && !(SHORTEST_WINDOW..=LONGEST).contains(&seconds) {
                format!(
                    "{seconds} is no window to look at processes; write seconds from {SHORTEST_WINDOW} to {LONGEST}, or \
                     leave it out"
                )
            } else if !(f64::MIN_POSITIVE..=LONGEST).contains(&seconds) {
                format!(
                    "{seconds} is no length of time; write a number of seconds above 0, or leave it out"
                )
            } else {
                return None;
            };
            Some((name, what))
        })
        .collect();
    for (name, Bound { lower, start }) in bounds {
        if start < lower {
            let what = format!(
                "{start} is below `lower`, {lower}, under which no ceiling falls; write {lower} or more"
            );
            wrong.push((format!("{name}.start"), what));
        }
    }
    wrong
}
