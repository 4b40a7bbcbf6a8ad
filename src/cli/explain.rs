//! `training-exporter explain LINE`: which rule of which preset fits a line, and what is taken from it.

use std::io::{Read, Write};
use std::sync::Arc;

use anyhow::Result;

use crate::log::lines::{Line, Lines};
use crate::log::preset::Preset;
use crate::log::reader::Presets;

/// Arguments of `explain`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Only by this preset and the common layers: a name, or a file of one's own.
    #[arg(long, value_name = "NAME|FILE")]
    preset: Option<String>,
    /// The line; `-` reads lines from the standard input.
    #[arg(required = true)]
    line: Vec<String>,
}

/// Explains each line.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let mut bytes = args.line.join(" ").into_bytes();
    if bytes == b"-" {
        bytes.clear();
        std::io::stdin().read_to_end(&mut bytes)?;
    }
    // An envelope's record is read when it is whole.
    bytes.push(b'\n');
    let presets = Presets::built_in();
    let named = args
        .preset
        .as_deref()
        .map(|name| super::replay::preset(name, &presets))
        .transpose()?;
    let (mut failed, mut any) = (Ok(()), false);
    let mut each = |line: Line<'_>| {
        any = true;
        if failed.is_ok() {
            failed = explain(&line, &presets, named.as_ref(), out);
        }
    };
    let mut lines = Lines::default();
    lines.push(&bytes, &mut each);
    lines.rest(&mut each);
    failed?;
    if !any {
        writeln!(
            out,
            "nothing to read: no text is left without blanks and control bytes"
        )?;
    }
    Ok(())
}

fn explain(
    line: &Line<'_>,
    presets: &Presets,
    named: Option<&Arc<Preset>>,
    out: &mut dyn Write,
) -> Result<()> {
    let text: String = line.text.chars().filter(|c| !c.is_control()).collect();
    writeln!(out, "{text}")?;
    if let Some(rank) = line.rank {
        writeln!(out, "  written by rank {rank}, as its envelope says")?;
    }
    if line.nested {
        writeln!(out, "  a nested bar: the cursor goes up behind it")?;
    }
    let (mut any, mut frameworks) = (false, 0);
    let all = presets.all().filter(|p| named.is_none() || p.layer);
    for preset in named.map(Arc::as_ref).into_iter().chain(all) {
        let mut fits = false;
        if preset.detects(line) {
            fits = true;
            writeln!(out, "  {}: shows this framework", preset.name)?;
        }
        for found in preset.explain(line) {
            fits = true;
            writeln!(out, "  {}: rule {}", preset.name, found.when)?;
            writeln!(out, "    fits {:?}", found.matched)?;
            for (name, value) in &found.captures {
                writeln!(out, "    {name} = {value}")?;
            }
            let said = if found.said.is_empty() {
                "nothing: a number cannot be read as one".to_owned()
            } else {
                found.said.join(", ")
            };
            writeln!(out, "    says {said}")?;
        }
        any |= fits;
        frameworks += usize::from(fits && !preset.layer);
    }
    if frameworks > 1 {
        writeln!(
            out,
            "  one of these {frameworks} presets reads a log: `replay` tells which, `--preset` names one"
        )?;
    }
    if !any {
        writeln!(out, "  no rule of any preset fits")?;
    }
    Ok(())
}
