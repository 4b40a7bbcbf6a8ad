//! Which preset reads a log: the one that was named, else the one for which most speaks, and until then the generic
//! one. A log that is young may change its mind, since a framework's banner comes before that of what is built on it.
//! The common layers speak beside the preset from the first line on.
//!
//! Where envelopes tell ranks apart, each kind of word is heard from the rank that says it first: eight ranks that
//! print the same are one. What goes wrong is heard from all.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::{Discriminant, discriminant};
use std::sync::{Arc, OnceLock};

use include_dir::{Dir, include_dir};
use regex::RegexSet;

use super::lines::Line;
use super::preset::Preset;
use super::traceback::Tracebacks;
use crate::job::Phase;
use crate::job::observation::Observation;

/// What is known before a framework is recognised: the preset of this name must exist.
pub const GENERIC: &str = "generic";

/// So many lines after a preset was chosen another one may still be.
const YOUNG: u32 = 4096;

static BUILT_IN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/src/presets");

/// All presets of this process, by which any log can be read.
#[derive(Debug, Default)]
pub struct Presets {
    all: Vec<Arc<Preset>>,
    detection: OnceLock<Arc<Detection>>,
}

/// The patterns that show frameworks, as one set.
#[derive(Debug)]
struct Detection {
    set: RegexSet,
    /// Whose each pattern is.
    owners: Vec<Arc<Preset>>,
}

impl Presets {
    /// Those that are built in.
    pub fn built_in() -> Self {
        let mut presets = Self::default();
        let mut files: Vec<_> = BUILT_IN
            .files()
            .map(|file| (file.path(), file.contents_utf8().unwrap_or_default()))
            .collect();
        // Each after the one that it extends.
        while !files.is_empty() {
            let before = files.len();
            files.retain(|(path, text)| {
                if Preset::base_of(text).is_some_and(|base| presets.named(&base).is_none()) {
                    return true;
                }
                let preset = presets.parse(text);
                presets.add(preset.unwrap_or_else(|e| panic!("{}: {e}", path.display())));
                false
            });
            assert!(files.len() < before, "{files:?} extend what is not there");
        }
        presets
    }

    /// Reads a preset, which may extend one of these.
    pub fn parse(&self, yaml: &str) -> Result<Preset, String> {
        Preset::parse(yaml, &|name| self.named(name))
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Preset> {
        self.all.iter().map(Arc::as_ref)
    }

    /// The names of those that can be chosen, for people.
    pub fn names(&self) -> String {
        let chosen = self.all().filter(|preset| !preset.layer);
        let mut names: Vec<&str> = chosen.map(|preset| preset.name.as_str()).collect();
        names.sort_unstable();
        names.join(", ")
    }

    /// The preset of that name.
    pub fn named(&self, name: &str) -> Option<Arc<Preset>> {
        self.all.iter().find(|preset| preset.name == name).cloned()
    }

    /// Adds one, in the place of any of its name.
    pub fn add(&mut self, preset: Preset) {
        self.all.retain(|known| known.name != preset.name);
        self.all.push(Arc::new(preset));
        self.detection = OnceLock::new();
    }

    /// A reader for one log; `named` overrides what the log itself shows.
    pub fn reader(&self, named: Option<Arc<Preset>>) -> Reader {
        let layers = self.all.iter().filter(|preset| preset.layer);
        let layers = layers.cloned().collect();
        let generic = self.named(GENERIC).expect("the generic preset is built in");
        let detection = self.detection.get_or_init(|| Arc::new(self.detection()));
        Reader {
            young: if named.is_some() { 0 } else { YOUNG },
            chosen: named,
            generic,
            layers,
            detection: detection.clone(),
            evidence: BTreeSet::new(),
            tracebacks: Tracebacks::default(),
            heard: HashMap::new(),
        }
    }

    fn detection(&self) -> Detection {
        let candidates = self.all.iter().filter(|preset| !preset.layer);
        let (patterns, owners): (Vec<&str>, Vec<_>) = candidates
            .flat_map(|preset| preset.detect.iter().map(|p| (p.as_str(), preset.clone())))
            .unzip();
        Detection {
            set: RegexSet::new(patterns).expect("each was checked"),
            owners,
        }
    }
}

/// Reads the lines of one log.
#[derive(Clone, Debug)]
pub struct Reader {
    chosen: Option<Arc<Preset>>,
    generic: Arc<Preset>,
    layers: Vec<Arc<Preset>>,
    detection: Arc<Detection>,
    /// The patterns that were seen.
    evidence: BTreeSet<usize>,
    /// For so many lines the choice is open; it is as long as nothing is chosen.
    young: u32,
    tracebacks: Tracebacks,
    heard: HashMap<Kind, u64>,
}

/// What is heard from one rank only.
type Kind = (Discriminant<Observation>, Option<Phase>, Option<String>);

impl Reader {
    /// What the line says.
    pub fn read(&mut self, line: &Line<'_>, said: &mut dyn FnMut(Observation)) {
        if self.young > 0 {
            self.detect(line);
        }
        let chosen = self.chosen.as_ref().unwrap_or(&self.generic);
        let heard = &mut self.heard;
        for preset in std::iter::once(chosen).chain(&self.layers) {
            preset.read(line, &mut |what| {
                if hears(heard, &what, line.rank) {
                    said(what);
                }
            });
        }
        self.tracebacks.read(line).into_iter().for_each(said);
    }

    /// Which presets read this log at present, in their order.
    pub fn presets(&self) -> impl Iterator<Item = &Preset> {
        let chosen = self.chosen.as_ref().unwrap_or(&self.generic);
        std::iter::once(chosen).chain(&self.layers).map(Arc::as_ref)
    }

    /// The framework, once it is known.
    pub fn framework(&self) -> Option<&str> {
        self.chosen.as_ref().map(|preset| preset.name.as_str())
    }

    fn detect(&mut self, line: &Line<'_>) {
        if self.chosen.is_some() {
            self.young -= 1;
        }
        let before = self.evidence.len();
        self.evidence.extend(self.detection.set.matches(line.text));
        if self.evidence.len() == before {
            return;
        }
        let mut scores: BTreeMap<&str, usize> = BTreeMap::new();
        for &index in &self.evidence {
            *scores
                .entry(&self.detection.owners[index].name)
                .or_default() += 1;
        }
        // What speaks for a preset speaks for those that extend it, once something of their own does.
        let score = |preset: &Preset| {
            let mut all = 0;
            let mut next = Some(preset);
            while let Some(this) = next {
                all += scores.get(this.name.as_str()).copied().unwrap_or(0);
                next = this.extends.as_deref();
            }
            all
        };
        let now = self.chosen.as_ref().map_or(0, |chosen| score(chosen));
        let owners = self.evidence.iter().map(|&i| &self.detection.owners[i]);
        let best = owners.rev().max_by_key(|preset| score(preset));
        if let Some(best) = best.filter(|best| score(best) > now) {
            self.chosen = Some(best.clone());
        }
    }
}

/// This is the rank whose word counts.
fn hears(heard: &mut HashMap<Kind, u64>, what: &Observation, rank: Option<u64>) -> bool {
    let Some(rank) = rank else { return true };
    let (phase, name) = match what {
        Observation::Fault(_)
        | Observation::Recompile(_)
        | Observation::RecompileLimit(_)
        | Observation::CollectiveTimeout { .. }
        | Observation::Stopping(_)
        | Observation::Raised(_)
        | Observation::End(_) => return true,
        Observation::Phase(phase) => (Some(*phase), None),
        Observation::Value { name, .. } => (None, Some(name.clone())),
        Observation::Epoch { .. }
        | Observation::CountedEpoch { .. }
        | Observation::FirstEpoch
        | Observation::Planned { .. }
        | Observation::EpochsDone { .. }
        | Observation::EpochsTrained { .. }
        | Observation::Step { .. }
        | Observation::Train(_)
        | Observation::TrainBar(_)
        | Observation::EpochBar(_)
        | Observation::Validate(_)
        | Observation::Validation(_)
        | Observation::Bar(_)
        | Observation::ValidationEnd
        | Observation::Result { .. }
        | Observation::CheckpointEnd
        | Observation::EpochEnd
        | Observation::Start => (None, None),
    };
    let kind = (discriminant(what), phase, name);
    *heard.entry(kind).or_insert(rank) == rank
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

    fn preset(yaml: &str, presets: &mut Presets) {
        let preset = presets.parse(yaml).expect("a good preset");
        presets.add(preset);
    }

    fn read(reader: &mut Reader, text: &str, rank: Option<u64>) -> Vec<String> {
        let mut said = Vec::new();
        let line = Line {
            text,
            seen: 0,
            end: 0,
            rank,
            nested: false,
        };
        reader.read(&line, &mut |what| said.push(what.to_string()));
        said
    }

    #[test]
    fn what_speaks_for_a_preset_speaks_for_those_built_on_it() {
        let mut presets = Presets::built_in();
        let rest = "rules: [{ when: '^s=(?<step>\\d+)', emit: step }]\nsamples: []\n";
        preset(
            &format!("name: below\nabout: x\ndetect: [lower, '^s=']\n{rest}"),
            &mut presets,
        );
        preset(
            "name: above\nabout: x\nextends: below\ndetect: [upper]\nrules: []\nsamples: []\n",
            &mut presets,
        );
        let mut reader = presets.reader(None);
        read(&mut reader, "lower", None);
        assert_eq!(reader.framework(), Some("below"));
        read(&mut reader, "upper", None);
        assert_eq!(reader.framework(), Some("above"));
        assert_eq!(read(&mut reader, "s=7", None), ["step 7"]);
        let mut pinned = presets.reader(presets.named("below"));
        read(&mut pinned, "lower upper", None);
        assert_eq!(pinned.framework(), Some("below"));
    }

    #[test]
    fn ranks_that_say_the_same_are_one_and_faults_are_heard_from_all() {
        let mut reader = Presets::built_in().reader(None);
        assert_eq!(read(&mut reader, "step 4: loss=1", Some(1)).len(), 2);
        assert_eq!(read(&mut reader, "step 4: loss=1", Some(0)).len(), 0);
        assert_eq!(read(&mut reader, "step 5: loss=1", Some(1)).len(), 2);
        for rank in [0, 1] {
            let head = "Traceback (most recent call last):";
            assert_eq!(read(&mut reader, head, Some(rank)), ["fault exception"]);
            assert_eq!(
                read(&mut reader, "ValueError: x", Some(rank)),
                ["raised error"]
            );
        }
    }
}
