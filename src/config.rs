//! YAML and flags -> a checked `Config`; the only loader. Nothing after it checks anything again.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regex::Regex;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::job::cadence::Limits;
use crate::log::follow::open;
use crate::log::preset::Preset;
use crate::log::reader::Presets;

/// What the exporter was told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which logs are followed.
    pub logs: Vec<LogSource>,
    /// Every length of time that a verdict rests on.
    pub limits: Limits,
    /// All presets, the built-in ones and those of the config.
    pub presets: Arc<Presets>,
    /// How many runs are exported at most.
    pub run_max: usize,
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
        check_source(&source, &self.presets, Path::new("--log.path"))?;
        self.logs.push(source);
        Ok(())
    }

    /// Reads a config file's text; `path` is for messages and for the presets that it names.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Bad> {
        let file: File = form(text, path)?;
        let mut presets = Presets::built_in();
        for named in &file.presets {
            let preset = path.parent().unwrap_or(Path::new(".")).join(named);
            let preset = load_preset(&preset, &presets)?;
            presets.add(preset);
        }
        for source in &file.logs {
            check_source(source, &presets, path)?;
        }
        check_limits(&file.limits, path)?;
        if file.run_max == Some(0) {
            return Err(Bad(format!(
                "{}: run_max: 0 would export no run; leave it out for {RUN_MAX}",
                path.display()
            )));
        }
        Ok(Self {
            logs: file.logs,
            limits: file.limits,
            presets: Arc::new(presets),
            run_max: file.run_max.unwrap_or(RUN_MAX),
        })
    }
}

/// Reads a preset file, which may extend one of those that are `known`, and runs its samples.
pub fn load_preset(path: &Path, known: &Presets) -> Result<Preset, Bad> {
    let text = read(path)?;
    let preset = known.parse(&text).map_err(|e| located(path, &e))?;
    preset
        .prove()
        .map_err(|e| Bad(format!("{}: {e}", path.display())))?;
    Ok(preset)
}

/// No file that is read whole is longer, in bytes.
const LONGEST_FILE: u64 = 16 * 1024 * 1024;

/// The text of a file: a regular one, and no endless one.
pub(crate) fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut file = open(path)?.take(LONGEST_FILE + 1);
    file.read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST_FILE {
        return Err(io::Error::other("longer than 16 MiB"));
    }
    Ok(text)
}

/// The same, with an error that names the file.
pub(crate) fn read(path: &Path) -> Result<String, Bad> {
    text(path).map_err(|e| Bad(format!("{}: cannot be read: {e}", path.display())))
}

/// The form of a file's text; one without any word has it by default.
pub(crate) fn form<T: DeserializeOwned + Default>(text: &str, path: &Path) -> Result<T, Bad> {
    let mut lines = text.lines().map(str::trim_start);
    if lines.all(|line| line.is_empty() || line.starts_with('#')) {
        return Ok(T::default());
    }
    serde_yaml::from_str(text).map_err(|e| located(path, &e.to_string()))
}

/// `file:line:column: what`, the form that editors jump to; YAML tells the place somewhere in its message.
fn located(path: &Path, message: &str) -> Bad {
    let place = Regex::new(r" at line (\d+) column (\d+)").expect("a constant pattern");
    match place.captures(message) {
        Some(at) => Bad(format!(
            "{}:{}:{}: {}",
            path.display(),
            &at[1],
            &at[2],
            message.replacen(&at[0], "", 1)
        )),
        None => Bad(format!("{}: {message}", path.display())),
    }
}

/// The longest name of a run, a user or a team, in bytes.
const LONGEST_NAME: usize = 512;

fn check_source(source: &LogSource, presets: &Presets, path: &Path) -> Result<(), Bad> {
    let bad = |what: String| {
        Bad(format!(
            "{}: logs: path `{}`: {what}",
            path.display(),
            source.path
        ))
    };
    if source.path.is_empty() {
        return Err(bad("is empty; name a log, or a pattern".to_owned()));
    }
    let names = [
        ("run", source.run.as_deref()),
        ("user", Some(source.user.as_str())),
        ("team", Some(source.team.as_str())),
    ];
    for (field, name) in names {
        if name.is_some_and(|name| name.len() > LONGEST_NAME) {
            return Err(bad(format!(
                "{field} is longer than {LONGEST_NAME} bytes, and would stand on every line of /metrics"
            )));
        }
    }
    if let Err(e) = glob::Pattern::new(&source.path)
        && !Path::new(&source.path).exists()
    {
        return Err(bad(format!(
            "not a glob pattern: {e}; write `[*]` for a literal `*`"
        )));
    }
    if let Some(name) = &source.preset {
        let known = presets.names();
        match presets.named(name) {
            None => return Err(bad(format!("no preset `{name}`; known are {known}"))),
            Some(preset) if preset.layer => {
                return Err(bad(format!(
                    "preset `{name}` speaks beside every other and cannot be chosen; choose among {known}"
                )));
            }
            Some(_) => {}
        }
    }
    if source.val_files == Some(0) {
        return Err(bad(
            "val_files is 0; leave it out if the number is not known".to_owned(),
        ));
    }
    Ok(())
}

/// Processes are looked at twelve times a window, so a shorter one would keep a core busy.
const SHORTEST_WINDOW: f64 = 1.0;
/// No limit is longer: a year, in seconds.
const LONGEST: f64 = 31_536_000.0;

fn check_limits(limits: &Limits, path: &Path) -> Result<(), Bad> {
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
    let all = bounds
        .iter()
        .flat_map(|(name, bound)| {
            [
                (format!("{name}.lower"), bound.lower),
                (format!("{name}.start"), bound.start),
            ]
        })
        .chain(lengths.map(|(name, seconds)| (name.to_owned(), seconds)));
    for (name, seconds) in all {
        if name == "work_window" && !(SHORTEST_WINDOW..=LONGEST).contains(&seconds) {
            return Err(Bad(format!(
                "{}: limits.{name}: {seconds} is no window to look at processes; write seconds from {SHORTEST_WINDOW} to \
                 {LONGEST}, or leave it out",
                path.display()
            )));
        }
        if !(f64::MIN_POSITIVE..=LONGEST).contains(&seconds) {
            return Err(Bad(format!(
                "{}: limits.{name}: {seconds} is no length of time; write a number of seconds above 0, or leave it out",
                path.display()
            )));
        }
    }
    Ok(())
}
