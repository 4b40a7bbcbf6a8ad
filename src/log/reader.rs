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

use super::lines::Line;
use super::preset::Preset;
use super::preset::rule::Rules;
use super::preset::wrong::Wrong;
use super::sieve::{Sieve, Sifted};
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
    together: OnceLock<Arc<Together>>,
}

impl PartialEq for Presets {
    fn eq(&self, others: &Self) -> bool {
        self.read_alike(others, None)
    }
}

/// The presets as the readers share them.
#[derive(Debug)]
struct Together {
    layers: Vec<Arc<Preset>>,
    /// Which preset a log may be of, with the rules that read it then, made when one is.
    frameworks: Vec<(Arc<Preset>, OnceLock<Rules>)>,
    generic: usize,
    /// The patterns that show frameworks: whose each is, and its number there.
    detection: Vec<(usize, usize)>,
    sieve: Sieve,
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
                let preset = Preset::parse(text, &presets.all);
                presets.add(preset.unwrap_or_else(|e| panic!("{}: {e:?}", path.display())));
                false
            });
            assert!(files.len() < before, "{files:?} extend what is not there");
        }
        presets
    }

    /// Reads a preset, which may extend one of these.
    pub fn parse(&self, yaml: &str) -> Result<Preset, Vec<Wrong>> {
        Preset::parse(yaml, &self.all)
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

    /// A log that names this preset, or none, is read by these as by the others.
    pub fn read_alike(&self, others: &Self, named: Option<&str>) -> bool {
        let heard = |p: &&Arc<Preset>| p.layer || named.is_none_or(|name| p.name == name);
        let others = others.all.iter().filter(heard);
        self.all.iter().filter(heard).eq(others)
    }

    /// Adds one, in the place of any of its name.
    pub fn add(&mut self, preset: Preset) {
        self.all.retain(|known| known.name != preset.name);
        self.all.push(Arc::new(preset));
        self.together = OnceLock::new();
    }

    /// A reader for one log; `named` overrides what the log itself shows.
    pub fn reader(&self, named: Option<Arc<Preset>>) -> Reader {
        let together = self.together.get_or_init(|| Arc::new(self.together()));
        let mut together = together.clone();
        let chosen = named.map(|named| {
            together.place(&named).unwrap_or_else(|| {
                // A preset of one's own, which is none of these.
                let mut with = Self {
                    all: self.all.clone(),
                    ..Self::default()
                };
                with.all.push(named);
                together = Arc::new(with.together());
                together.frameworks.len() - 1
            })
        });
        Reader {
            young: if chosen.is_some() { 0 } else { YOUNG },
            chosen,
            together,
            evidence: BTreeSet::new(),
            sifted: Sifted::default(),
            shown: Sifted::default(),
            tracebacks: Tracebacks::default(),
            heard: HashMap::new(),
        }
    }

    fn together(&self) -> Together {
        let (layers, frameworks): (Vec<_>, Vec<_>) =
            self.all.iter().cloned().partition(|preset| preset.layer);
        let detection: Vec<(usize, usize)> = frameworks
            .iter()
            .enumerate()
            .flat_map(|(place, preset)| (0..preset.detect.len()).map(move |n| (place, n)))
            .collect();
        let sieve = Sieve::new(
            frameworks
                .iter()
                .flat_map(|preset| &preset.detect)
                .map(|pattern| &pattern.needs),
        );
        let generic = frameworks.iter().position(|preset| preset.name == GENERIC);
        Together {
            layers,
            generic: generic.expect("the generic preset is built in"),
            frameworks: frameworks
                .into_iter()
                .map(|preset| (preset, OnceLock::new()))
                .collect(),
            detection,
            sieve,
        }
    }
}

impl Together {
    fn place(&self, preset: &Arc<Preset>) -> Option<usize> {
        self.frameworks
            .iter()
            .position(|(known, _)| Arc::ptr_eq(known, preset))
    }

    fn rules(&self, place: usize) -> &Rules {
        let (preset, rules) = &self.frameworks[place];
        rules.get_or_init(|| preset.rules_with(&self.layers))
    }
}

/// Reads the lines of one log.
#[derive(Clone, Debug)]
pub struct Reader {
    together: Arc<Together>,
    /// Its place among them.
    chosen: Option<usize>,
    /// The patterns that were seen.
    evidence: BTreeSet<usize>,
    /// For so many lines the choice is open; it is as long as nothing is chosen.
    young: u32,
    sifted: Sifted,
    /// The same of the patterns that show frameworks.
    shown: Sifted,
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
        let rules = self
            .together
            .rules(self.chosen.unwrap_or(self.together.generic));
        let heard = &mut self.heard;
        rules.read(line, &mut self.sifted, &mut |what| {
            if hears(heard, &what, line.rank) {
                said(what);
            }
        });
        self.tracebacks.read(line).into_iter().for_each(said);
    }

    /// Which presets read this log at present, in their order.
    pub fn presets(&self) -> impl Iterator<Item = &Preset> {
        let chosen = self.chosen.unwrap_or(self.together.generic);
        let chosen = &self.together.frameworks[chosen].0;
        std::iter::once(chosen)
            .chain(&self.together.layers)
            .map(Arc::as_ref)
    }

    /// The framework, once it is known.
    pub fn framework(&self) -> Option<&str> {
        let (preset, _) = &self.together.frameworks[self.chosen?];
        Some(&preset.name)
    }

    fn detect(&mut self, line: &Line<'_>) {
        if self.chosen.is_some() {
            self.young -= 1;
        }
        let Together {
            frameworks,
            detection,
            sieve,
            ..
        } = self.together.as_ref();
        let pattern = |index: usize| {
            let (place, n) = detection[index];
            &frameworks[place].0.detect[n]
        };
        let before = self.evidence.len();
        for &index in sieve.sift(&mut self.shown, line) {
            let index = index as usize;
            if !self.evidence.contains(&index) && pattern(index).is_match(line.text) {
                self.evidence.insert(index);
            }
        }
        if self.evidence.len() == before {
            return;
        }
        let mut scores: BTreeMap<&str, usize> = BTreeMap::new();
        let owner = |index: &usize| detection[*index].0;
        for index in &self.evidence {
            *scores.entry(&frameworks[owner(index)].0.name).or_default() += 1;
        }
        // What speaks for a preset speaks for those that extend it, once something of their own does.
        let score = |place: usize| {
            let mut all = 0;
            let mut next = Some(frameworks[place].0.as_ref());
            while let Some(this) = next {
                all += scores.get(this.name.as_str()).copied().unwrap_or(0);
                next = this.extends.as_deref();
            }
            all
        };
        let now = self.chosen.map_or(0, score);
        let best = self
            .evidence
            .iter()
            .rev()
            .map(owner)
            .max_by_key(|&place| score(place));
        if let Some(best) = best.filter(|&best| score(best) > now) {
            self.chosen = Some(best);
            self.sifted = Sifted::default();
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
mod tests;
