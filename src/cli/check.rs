//! `training-exporter check`: is this file right, and if not, where and what to do.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::config::{self, Config};
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
            Ok(what) => writeln!(out, "{}: a good {what}", path.display())?,
            Err(e) => {
                wrong += 1;
                writeln!(out, "{e}")?;
            }
        }
    }
    if wrong > 0 {
        bail!("{wrong} of {} files are wrong", args.files.len());
    }
    Ok(())
}

fn check(path: &Path) -> Result<&'static str, config::Bad> {
    let text = config::read(path)?;
    let has = |keys: &[&str]| {
        text.lines()
            .any(|line| keys.iter().any(|key| line.starts_with(key)))
    };
    if has(&["nodes:", "duration:", "expect:"]) {
        let wrong = |e: String| config::Bad::new(path, &e);
        return Scenario::parse(&text).map(|_| "scenario").map_err(wrong);
    }
    let web = ["tls_server", "http_server", "basic_auth", "rate_limit"];
    if has(&web) {
        return web::config::check(path).map(|()| "web configuration");
    }
    // Any of its keys shows a preset, so that a misspelt one is told as such.
    if has(&["name:", "about:", "detect:", "rules:", "samples:"]) {
        config::load_preset(path, &Presets::built_in()).map(|_| "preset")
    } else {
        Config::load(path).map(|_| "configuration")
    }
}
