//! Which preset reads a log: the one that was named, else the one whose banner comes first, and until then the generic
//! one. The choice is made once for a log and kept; the common layers speak beside it from the first line on.

use std::sync::Arc;

use include_dir::{Dir, include_dir};

use super::lines::Line;
use super::preset::Preset;
use crate::job::observation::Observation;

/// What is known before a framework is recognised: the preset of this name must exist.
pub const GENERIC: &str = "generic";

static BUILT_IN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/src/presets");

/// All presets of this process, by which any log can be read.
#[derive(Debug)]
pub struct Presets(Vec<Arc<Preset>>);

impl Presets {
    /// Those that are built in.
    pub fn built_in() -> Self {
        let presets = BUILT_IN.files().map(|file| {
            let text = file.contents_utf8().unwrap_or_default();
            Arc::new(
                Preset::parse(text).unwrap_or_else(|e| panic!("{}: {e}", file.path().display())),
            )
        });
        Self(presets.collect())
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Preset> {
        self.0.iter().map(Arc::as_ref)
    }

    /// The preset of that name.
    pub fn named(&self, name: &str) -> Option<Arc<Preset>> {
        self.0.iter().find(|preset| preset.name == name).cloned()
    }

    /// Adds one, in the place of any of its name.
    pub fn add(&mut self, preset: Preset) {
        self.0.retain(|known| known.name != preset.name);
        self.0.push(Arc::new(preset));
    }

    /// A reader for one log; `named` overrides what the log itself shows.
    pub fn reader(&self, named: Option<Arc<Preset>>) -> Reader {
        let layers = self
            .0
            .iter()
            .filter(|preset| preset.layer)
            .cloned()
            .collect();
        let candidates = self
            .0
            .iter()
            .filter(|preset| !preset.layer && preset.name != GENERIC)
            .cloned()
            .collect();
        let generic = self.named(GENERIC).expect("the generic preset is built in");
        Reader {
            chosen: named,
            generic,
            candidates,
            layers,
        }
    }
}

/// Reads the lines of one log.
#[derive(Debug)]
pub struct Reader {
    chosen: Option<Arc<Preset>>,
    generic: Arc<Preset>,
    candidates: Vec<Arc<Preset>>,
    layers: Vec<Arc<Preset>>,
}

impl Reader {
    /// What the line says.
    pub fn read(&mut self, line: &Line<'_>, said: &mut dyn FnMut(Observation)) {
        if self.chosen.is_none() {
            self.chosen = self
                .candidates
                .iter()
                .find(|preset| preset.detects(line))
                .cloned();
        }
        self.chosen
            .as_ref()
            .unwrap_or(&self.generic)
            .read(line, said);
        for layer in &self.layers {
            layer.read(line, said);
        }
    }

    /// The framework, once it is known.
    pub fn framework(&self) -> Option<&str> {
        self.chosen.as_ref().map(|preset| preset.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_proves_itself() {
        for preset in Presets::built_in().all() {
            preset.prove().unwrap_or_else(|e| panic!("{e}"));
        }
    }
}
