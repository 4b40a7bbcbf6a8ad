//! `training-exporter metrics`: the metric reference as Markdown, from the rows themselves.

use std::io::{self, Write};

use crate::state::metrics::all_metrics;

/// Writes the table.
pub fn run(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "| metric | type | labels | meaning |\n|---|---|---|---|"
    )?;
    for entry in all_metrics() {
        let labels: Vec<String> = entry
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        writeln!(
            out,
            "| `{}` | {} | {} | {} |",
            entry.name,
            entry.kind,
            labels.join(" "),
            entry.help
        )?;
    }
    Ok(())
}
