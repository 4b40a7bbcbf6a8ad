//! The Rust side, for tests: where the built library lies, a copy of it with a scenario of its own,
//! and the scenario's file, always replaced whole.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The library as cargo built it for the running test: `libfake_nvml.so`.
///
/// # Panics
/// When there is none near the running program; the message names the places.
pub fn library_path() -> PathBuf {
    built("libfake_nvml.so")
}

/// The library of the crate `fake-nvml-minimal`: four functions, all other symbols absent.
///
/// # Panics
/// When there is none near the running program: that crate must be a dev-dependency as well.
pub fn minimal_library_path() -> PathBuf {
    built("libfake_nvml_minimal.so")
}

/// Cargo puts a dependency's library into `target/PROFILE/deps`, where test programs lie too; a
/// copy one level up may be older, so it comes last.
fn built(name: &str) -> PathBuf {
    let program = env::current_exe().expect("a running program has a path");
    let folder = program.parent().expect("a program lies in a folder");
    let above = folder.parent().unwrap_or(folder);
    let beside = folder.ends_with("deps").then(|| folder.to_path_buf());
    let places = [
        folder.join("deps"),
        above.join("deps"),
        folder.into(),
        above.into(),
    ];
    let places: Vec<PathBuf> = beside
        .into_iter()
        .chain(places)
        .map(|at| at.join(name))
        .collect();
    let found = places.iter().find(|path| path.is_file());
    found
        .unwrap_or_else(|| panic!("{name} is at none of {places:?}"))
        .clone()
}

/// A copy of the library under the name that programs look for, with its own scenario beside it.
///
/// Copies are independent even within one process, so that tests in several threads can each have
/// their own driver. `LD_LIBRARY_PATH` set to the folder makes other programs use it.
#[derive(Debug)]
pub struct Fake {
    /// `FOLDER/libnvidia-ml.so.1`.
    pub library: PathBuf,
    /// `FOLDER/libnvidia-ml.so.1.scenario`; read where `FAKE_NVML` is not set.
    pub scenario: Scenario,
}

impl Fake {
    /// Copies the library into a folder that exists, and writes an empty scenario: one idle GPU.
    pub fn install(folder: &Path) -> io::Result<Self> {
        let library = folder.join("libnvidia-ml.so.1");
        // A program that has an older copy mapped keeps its inode.
        let _ = fs::remove_file(&library);
        fs::copy(library_path(), &library)?;
        let scenario = Scenario::new(folder.join("libnvidia-ml.so.1.scenario"));
        scenario.write()?;
        Ok(Self { library, scenario })
    }
}

/// A scenario file under construction: set lines, then write.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// let mut scenario = fake_nvml::Scenario::new("node.txt");
/// scenario.set("count", 2).set("0.util", 97).set("1.ret", 15).write()?;
/// scenario.set("0.util", "@0 0 @0.5 100 repeat 1.0").remove("1.ret").write()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Scenario {
    path: PathBuf,
    lines: Vec<(String, String)>,
}

impl Scenario {
    /// Nothing is written yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            lines: Vec::new(),
        }
    }

    /// Where it is, or will be written: the value for `FAKE_NVML`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the line of that key, in place of an earlier one.
    pub fn set(&mut self, key: &str, value: impl Display) -> &mut Self {
        self.remove(key).lines.push((key.into(), value.to_string()));
        self
    }

    /// Leaves the line of that key out, so that its default holds.
    pub fn remove(&mut self, key: &str) -> &mut Self {
        self.lines.retain(|(known, _)| known != key);
        self
    }

    /// Replaces the file whole: a reader sees the old lines or the new, never half of them.
    pub fn write(&self) -> io::Result<()> {
        let text: String = self
            .lines
            .iter()
            .map(|(key, value)| format!("{key} {value}\n"))
            .collect();
        let mut beside: OsString = self.path.clone().into();
        beside.push(".tmp");
        fs::write(&beside, text)?;
        fs::rename(beside, &self.path)
    }
}
