//! Scenario files -> what the exporters said -> what the rules made of it: several files at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use anyhow::{Context, Result, anyhow};

use super::expect::{disagreement, other_words, unexpected};
use super::promtool::{Evaluated, Rules};
use super::recorded::Folders;
use super::series::concerns_the_fleet;
use crate::config::text;
use crate::log::reader::Presets;
use crate::scenario::simulate::{Scrape, simulate};
use crate::scenario::spec::Scenario;

/// So many scenarios share a world.
const TOGETHER: usize = 16;

/// A scenario that was played, and what came of it.
#[derive(Debug)]
pub struct Outcome {
    /// The scenario.
    pub scenario: Scenario,
    /// What the rules made of it.
    pub evaluated: Evaluated,
    /// What is not as expected; the first difference of each kind.
    pub differences: Vec<String>,
    /// What each scrape gave.
    pub scrapes: Vec<Scrape>,
    /// What the other ways' rules made of it.
    pub others: Vec<Evaluated>,
}

/// Plays scenario files, several at once; `done` hears of each in the order of the files.
pub fn play(
    files: &[PathBuf],
    rules: &Rules,
    others: &[Rules],
    recordings: Option<&Path>,
    mut done: impl FnMut(&Path, Result<Outcome>) -> Result<()>,
) -> Result<()> {
    let presets = Presets::built_in();
    let groups: Vec<&[PathBuf]> = files.chunks(TOGETHER).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let (told, hear) = sync_channel(cores);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(groups.len()) {
            let (told, groups, next, presets) = (told.clone(), &groups, &next, &presets);
            scope.spawn(move || {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(group) = groups.get(n) else { return };
                    // Nobody hears any more once something was wrong.
                    if told
                        .send((n, together(group, rules, others, recordings, presets)))
                        .is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop(told);
        // Dropped on the way out, so that no thread waits to be heard.
        let hear = hear;
        let mut early = BTreeMap::new();
        for (n, group) in groups.iter().enumerate() {
            while !early.contains_key(&n) {
                let (n, outcomes) = hear.recv().context("a thread has ended early")?;
                early.insert(n, outcomes);
            }
            for (file, outcome) in group.iter().zip(early.remove(&n).unwrap_or_default()) {
                done(file, outcome)?;
            }
        }
        Ok(())
    })
}

/// Plays scenario files whose rules are evaluated together where that makes no difference.
fn together(
    files: &[PathBuf],
    rules: &Rules,
    others: &[Rules],
    recordings: Option<&Path>,
    presets: &Presets,
) -> Vec<Result<Outcome>> {
    let played: Vec<Result<Played>> = files
        .iter()
        .map(|file| simulated(file, recordings, presets))
        .collect();
    let worlds: Vec<&[Scrape]> = played
        .iter()
        .flatten()
        .map(|(_, scrapes)| &scrapes[..])
        .collect();
    let mut evaluated = evaluate(rules, &worlds).into_iter();
    let mut others: Vec<_> = others
        .iter()
        .map(|other| evaluate(other, &worlds).into_iter())
        .collect();
    let mut outcome = |(scenario, scrapes): Played| {
        let evaluated = evaluated.next().context("not evaluated")??;
        rules.know(scenario.expect.keys())?;
        let others = others
            .iter_mut()
            .map(|other| other.next().context("not evaluated")?);
        let others = others.collect::<Result<_>>()?;
        let mut differences = unexpected(&scenario, &evaluated);
        differences.extend(other_words(&scenario, &evaluated));
        differences.extend(disagreement(&scrapes, &evaluated));
        Ok(Outcome {
            scenario,
            evaluated,
            differences,
            scrapes,
            others,
        })
    };
    played
        .into_iter()
        .map(|played| played.and_then(&mut outcome))
        .collect()
}

type Played = (Scenario, Vec<Scrape>);

/// Plays one scenario file, before any rule.
fn simulated(file: &Path, recordings: Option<&Path>, presets: &Presets) -> Result<Played> {
    let text = text(file).context("it cannot be read")?;
    let scenario = Scenario::parse(&text).map_err(|e| anyhow!(e))?;
    let near = file.ancestors().skip(1);
    let near = near.filter(|folder| folder.join("logs").is_dir()).take(1);
    let folders = Folders(near.chain(recordings).map(Path::to_owned).collect());
    let scrapes = simulate(&scenario, &folders, presets).map_err(|e| anyhow!(e))?;
    Ok((scenario, scrapes))
}

/// Evaluates rules over scenarios, in one world where that makes no difference.
fn evaluate(rules: &Rules, worlds: &[&[Scrape]]) -> Vec<Result<Evaluated>> {
    let alone = |scrapes: &&[Scrape]| Ok(rules.evaluate(&[*scrapes])?.remove(0));
    let (apart, shared): (Vec<&[Scrape]>, Vec<&[Scrape]>) = worlds
        .iter()
        .partition(|scrapes| concerns_the_fleet(scrapes));
    // One that ends the evaluation for all is found when each has its own.
    let mut shared = match rules.evaluate(&shared) {
        Ok(all) => all.into_iter().map(Ok).collect(),
        Err(_) => shared.iter().map(alone).collect::<Vec<_>>(),
    }
    .into_iter();
    let mut apart = apart.iter().map(alone).collect::<Vec<_>>().into_iter();
    let one = |scrapes: &&[Scrape]| match concerns_the_fleet(scrapes) {
        true => apart.next(),
        false => shared.next(),
    };
    worlds.iter().filter_map(one).collect()
}
