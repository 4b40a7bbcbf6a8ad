//! Recorded logs, evidence and opened files, in folders as the tests have them.

use std::fs;
use std::path::PathBuf;

use crate::config::text;
use crate::node::process::Counters;
use crate::scenario::recording::{Files, evidence, files, timeline};
use crate::scenario::world::{Library, RecordedLog};

/// Folders that hold `logs`, `joint`, `recordings` and `evidence`; the first that has what is named gives it.
#[derive(Clone, Debug)]
pub(super) struct Folders(pub(super) Vec<PathBuf>);

impl Folders {
    /// The first of these places that is there.
    fn find(&self, what: &str, name: &str, places: &[String]) -> Result<PathBuf, String> {
        let all = self
            .0
            .iter()
            .flat_map(|folder| places.iter().map(|place| folder.join(place)));
        all.clone().find(|place| place.exists()).ok_or_else(|| {
            let looked: Vec<String> = all.map(|place| place.display().to_string()).collect();
            format!(
                "no recorded {what} `{name}`: looked for {}; give --recordings DIR",
                looked.join(", ")
            )
        })
    }
}

impl Library for Folders {
    fn log(&self, name: &str) -> Result<RecordedLog, String> {
        let places = ["logs", "joint", "recordings"].map(|kind| format!("{kind}/{name}"));
        let case = self.find("log", name, &places)?;
        let read = |file: &str| {
            fs::read(case.join(file)).map_err(|e| format!("{}: {e}", case.join(file).display()))
        };
        let times = timeline(&String::from_utf8_lossy(&read("timeline.tsv")?))
            .map_err(|e| format!("{}/timeline.tsv:{e}", case.display()))?;
        Ok((read("train.log")?, times))
    }

    fn evidence(&self, name: &str) -> Result<Vec<(f64, Counters)>, String> {
        let places = [
            format!("evidence/{name}.csv"),
            format!("joint/{name}/evidence.csv"),
            format!("recordings/{name}/evidence.csv"),
        ];
        let file = self.find("evidence", name, &places)?;
        let text = text(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        evidence(&text).map_err(|e| format!("{}:{e}", file.display()))
    }

    fn files(&self, name: &str) -> Result<Vec<(f64, u64)>, String> {
        let places = ["joint", "recordings"].map(|kind| format!("{kind}/{name}/files.tsv"));
        let file = self.find("files", name, &places)?;
        let text = text(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let passes = files(&text).map_err(|e| format!("{}:{e}", file.display()))?;
        // Each pass counts from 0 on.
        let (mut before, mut now) = (0, Files::default());
        let totals = passes.into_iter().map(|(at, files)| {
            if files.pass != now.pass {
                before += now.opened;
            }
            now = files;
            (at, before + files.opened)
        });
        Ok(totals.collect())
    }
}
