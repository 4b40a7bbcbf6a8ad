//! `training-exporter check`: is this file right, and if not, where and what to do.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde_yaml::Mapping;

use crate::config::{self, Bad, Config};
use crate::log::reader::Presets;
use crate::scenario::spec::Scenario;
use crate::web;

/// Arguments of `check`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Config, web config, preset and scenario files; which of them a file is, its keys tell.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Checks every file and tells all that is wrong; fails if anything is.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let mut wrong = 0;
    for path in &args.files {
        match check(path) {
            Ok((what, notes)) => {
                writeln!(out, "{}: {what}", path.display())?;
                for note in notes {
                    writeln!(out, "  note: {note}")?;
                }
            }
            Err(e) => {
                wrong += 1;
                writeln!(out, "{e}")?;
            }
        }
    }
    match (wrong, args.files.len()) {
        (0, _) => Ok(()),
        (1, 1) => bail!("the file is wrong"),
        (1, all) => bail!("1 of {all} files is wrong"),
        (wrong, all) => bail!("{wrong} of {all} files are wrong"),
    }
}

/// What a good file is, and what may not be meant by it.
type Good = (&'static str, Vec<String>);

/// The keys by which each kind of file is known.
const SCENARIO: [&str; 3] = ["nodes:", "duration:", "expect:"];
const WEB: [&str; 4] = ["tls_server", "http_server", "basic_auth", "rate_limit"];
/// Any of them shows a preset, so that a misspelt one is told as such.
const PRESET: [&str; 5] = ["name:", "about:", "detect:", "rules:", "samples:"];
const CONFIG: [&str; 4] = ["logs:", "limits:", "presets:", "run_max:"];

fn check(path: &Path) -> Result<Good, Bad> {
    let text = config::read(path)?;
    let has = |keys: &[&str]| {
        text.lines()
            .any(|line| keys.iter().any(|key| line.starts_with(key)))
    };
    if has(&SCENARIO) {
        let wrong = |e| Bad::of(path, &[e]);
        return Scenario::parse(&text)
            .map(|_| ("a good scenario", Vec::new()))
            .map_err(wrong);
    }
    if has(&WEB) {
        return web::config::check(path).map(|()| ("a good web configuration", Vec::new()));
    }
    if has(&PRESET) {
        let known = Presets::built_in();
        let preset = config::load_preset(path, &known)?;
        let notes = config::preset_notes(&preset, &known, false);
        return Ok(("a good preset", notes));
    }
    if config::is_empty(&text) {
        return Ok((
            "says nothing; as a configuration, all is by default",
            Vec::new(),
        ));
    }
    // A misspelt key alone is still one of a configuration.
    if !has(&CONFIG) && !serde_yaml::from_str::<Mapping>(&text).is_ok_and(|keys| !keys.is_empty()) {
        let what = "none of the files that are checked: a configuration has one of the keys `logs`, `limits`, `presets` and \
                    `run_max`, a preset has `name` and `rules`; a log is read by `replay`";
        return Err(Bad::new(path, what));
    }
    Config::load(path).map(|config| ("a good configuration", config.notes))
}
