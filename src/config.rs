//! YAML and flags -> a checked `Config`; the only loader. Nothing after it checks anything again.

mod check;

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::job::cadence::Limits;
use crate::log::follow::open;
use crate::log::preset::Preset;
use crate::log::preset::wrong::{Wrong, entries};
use crate::log::reader::Presets;

/// What the exporter was told.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Which logs are followed.
    pub logs: Vec<LogSource>,
    /// Every length of time that a verdict rests on.
    pub limits: Limits,
    /// All presets, the built-in ones and those of the config.
    pub presets: Arc<Presets>,
    /// How many runs are exported at most.
    pub run_max: usize,
    /// What is right, and may still not be what was meant.
    pub notes: Vec<String>,
}

/// Logs that are followed, and what is known about their runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSource {
    /// A path, or a glob pattern.
    pub path: String,
    /// The run's name; several logs may belong to one run. Default: `<log stem>@<host>`.
    #[serde(default)]
    pub run: Option<String>,
    /// Read by this preset, whatever the log shows.
    #[serde(default)]
    pub preset: Option<String>,
    /// Folders of validation samples.
    #[serde(default)]
    pub val_data: Vec<PathBuf>,
    /// How many files a whole validation pass opens.
    #[serde(default)]
    pub val_files: Option<u64>,
    /// Whose run it is, for `training_run_info`.
    #[serde(default)]
    pub user: String,
    /// Whose team's.
    #[serde(default)]
    pub team: String,
    /// How many nodes the run should have; one that is missing is then told.
    #[serde(default)]
    pub nodes: Option<u64>,
    /// How loudly its alerts speak; absent leaves it to the rules, which page.
    #[serde(default)]
    pub alerting: Option<Alerting>,
}

/// How loudly a run's alerts speak: the label `level` of `training_run_alerting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Alerting {
    /// Not at all.
    Off,
    /// Warnings, but no page.
    Warn,
    /// All.
    Page,
}

impl Alerting {
    /// The label value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Page => "page",
        }
    }
}

impl LogSource {
    /// A source that is only a path or a pattern.
    pub fn path(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            run: None,
            preset: None,
            val_data: Vec::new(),
            val_files: None,
            user: String::new(),
            team: String::new(),
            nodes: None,
            alerting: None,
        }
    }
}

/// The file's form.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    logs: Vec<LogSource>,
    limits: Limits,
    /// Preset files of one's own; one of a known name takes that one's place.
    presets: Vec<PathBuf>,
    run_max: Option<usize>,
}

/// What is wrong with a file, and where. The message ends with what to do.
#[derive(Debug)]
pub struct Bad(String);

impl Bad {
    /// What is wrong with the file at `path`.
    pub fn new(path: &Path, what: &str) -> Self {
        Self(format!("{}: {what}", path.display()))
    }

    /// All of it, each as `file:line:column: what`, the form that editors jump to.
    pub fn of(path: &Path, all: &[Wrong]) -> Self {
        let all = all
            .iter()
            .map(|wrong| format!("{}:{wrong}", path.display()));
        Self(all.collect::<Vec<_>>().join("\n"))
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Bad {}

/// How many runs are exported at most, unless told otherwise.
const RUN_MAX: usize = 64;

impl Default for Config {
    fn default() -> Self {
        Self {
            logs: Vec::new(),
            limits: Limits::default(),
            presets: Arc::new(Presets::built_in()),
            run_max: RUN_MAX,
            notes: Vec::new(),
        }
    }
}

impl Config {
    /// Reads a config file.
    pub fn load(path: &Path) -> Result<Self, Bad> {
        Self::parse(&read(path)?, path)
    }

    /// Adds a source that was given by flags.
    pub fn add(&mut self, source: LogSource) -> Result<(), Bad> {
        if let Some((_, what)) = check::source(&source, &self.presets).first() {
            return Err(Bad(format!("--log.path `{}`: {what}", source.path)));
        }
        self.logs.push(source);
        Ok(())
    }

    /// Reads a config file's text; `path` is for messages and for the presets that it names.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Bad> {
        let file: File = if is_empty(text) {
            File::default()
        } else {
            serde_yaml::from_str(text).map_err(|e| {
                let logs = entries::<LogSource>(text, "logs").into_iter();
                let all = logs.filter_map(Result::err).chain([Wrong::form(&e)]);
                Bad::of(path, &Wrong::in_order(all.collect()))
            })?
        };
        let (presets, notes, mut all) = with_presets(&file, text, path);
        let mut wrong = Vec::new();
        let mut bad = |at: &str, what: &str| wrong.push(Wrong::at(text, at, what));
        for (n, source) in file.logs.iter().enumerate() {
            for (field, what) in check::source(source, &presets) {
                // What a preset is called that could not be read is not known.
                if field != "preset" || all.is_empty() {
                    bad(&format!("logs[{n}].{field}"), &what);
                }
            }
        }
        for (field, what) in check::limits(&file.limits) {
            bad(&format!("limits.{field}"), &what);
        }
        if file.run_max == Some(0) {
            let what = format!("0 would export no run; leave it out for {RUN_MAX}");
            bad("run_max", &what);
        }
        if !wrong.is_empty() {
            all.push(Bad::of(path, &Wrong::in_order(wrong)));
        }
        if !all.is_empty() {
            let all: Vec<String> = all.iter().map(Bad::to_string).collect();
            return Err(Bad(all.join("\n")));
        }
        Ok(Self {
            logs: file.logs,
            limits: file.limits,
            presets: Arc::new(presets),
            run_max: file.run_max.unwrap_or(RUN_MAX),
            notes,
        })
    }
}

/// The built-in presets and a config's own, what may not be meant by these, and what is wrong with them.
fn with_presets(file: &File, config: &str, path: &Path) -> (Presets, Vec<String>, Vec<Bad>) {
    let (mut presets, mut notes, mut wrong) = (Presets::built_in(), Vec::new(), Vec::new());
    for (n, named) in file.presets.iter().enumerate() {
        let named = path.parent().unwrap_or(Path::new(".")).join(named);
        let parsed = text(&named)
            .map_err(|e| {
                let what = format!("{}: cannot be read: {e}", named.display());
                Bad::of(path, &[Wrong::at(config, &format!("presets[{n}]"), &what)])
            })
            .and_then(|text| parse_preset(&text, &named, &presets));
        match parsed {
            Err(e) => wrong.push(e),
            Ok(preset) => {
                let asks = |log: &LogSource| log.preset.as_ref() == Some(&preset.name);
                let told = preset_notes(&preset, &presets, file.logs.iter().any(asks));
                let place = |note| format!("{}: {note}", named.display());
                notes.extend(told.into_iter().map(place));
                presets.add(preset);
            }
        }
    }
    (presets, notes, wrong)
}

/// Reads a preset file, which may extend one of those that are `known`, and runs its samples.
pub fn load_preset(path: &Path, known: &Presets) -> Result<Preset, Bad> {
    parse_preset(&read(path)?, path, known)
}

fn parse_preset(text: &str, path: &Path, known: &Presets) -> Result<Preset, Bad> {
    let preset = known.parse(text);
    let proved = preset.and_then(|preset| preset.prove(text).map(|()| preset));
    proved.map_err(|all| Bad::of(path, &all))
}

/// What may not be meant by a preset beside those that are `known`; a log may ask for it by its name.
pub fn preset_notes(preset: &Preset, known: &Presets, asked_for: bool) -> Vec<String> {
    let name = &preset.name;
    let mut notes = Vec::new();
    if known.named(name).is_some() {
        notes.push(format!("takes the place of the preset `{name}` that is there already; a name of its own keeps both"));
    }
    if preset.must_be_named() && !asked_for {
        notes.push(format!(
            "has no `detect:`, so it reads only a log beside which `preset: {name}` stands"
        ));
    }
    notes
}

/// No file that is read whole is longer, in bytes.
const LONGEST_FILE: u64 = 16 * 1024 * 1024;

/// The text of a file: a regular one, and no endless one.
pub(crate) fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    open(path)?.take(LONGEST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.starts_with(&GZIP) {
        return Err(io::Error::other(
            "compressed by gzip, and no text; unpack it",
        ));
    }
    if bytes.len() as u64 > LONGEST_FILE {
        return Err(io::Error::other("longer than 16 MiB"));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        io::Error::other(format!("byte {at} is no UTF-8, so it is no text"))
    })
}

/// What a file begins with that gzip has made.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The same, with an error that names the file.
pub(crate) fn read(path: &Path) -> Result<String, Bad> {
    text(path).map_err(|e| Bad(format!("{}: cannot be read: {e}", path.display())))
}

/// There is no word in a file's text, only remarks.
pub(crate) fn is_empty(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim_start);
    lines.all(|line| line.is_empty() || line.starts_with('#'))
}

/// The form of a file's text; one without any word has it by default.
pub(crate) fn form<T: DeserializeOwned + Default>(text: &str, path: &Path) -> Result<T, Bad> {
    if is_empty(text) {
        return Ok(T::default());
    }
    serde_yaml::from_str(text).map_err(|e| Bad::of(path, &[Wrong::form(&e)]))
}
