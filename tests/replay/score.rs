//! What share of the time a replay was right, against what the trainer was really doing.
//!
//! At a moment m the log was last appended to at a <= m, so a change after a cannot be known yet: a belief is right if
//! it was the truth at some moment of [a + grace, m], or, within the grace after an append, of [a - grace, m]. Shares
//! are of the time from the first training or validation on; what is exact is 1 or 0.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// The recorder looked at the file each 20 ms; the trainer's hook and its print differ by less, in seconds.
const GRACE: f64 = 0.2;
/// From the first rank's death to the launcher's exit, in seconds.
const EXIT: f64 = 10.0;
/// Between the moments at which belief and truth are compared, in seconds.
const STEP: f64 = 0.1;
/// How far a validation's progress may be off.
const NEAR: f64 = 0.05;

/// What is said about a case: which figures its log can show at all, and where less than the usual share is enough.
#[derive(Deserialize)]
pub(crate) struct Meta {
    pub(crate) scored: Vec<String>,
    #[serde(default)]
    pub(crate) floor: BTreeMap<String, f64>,
    /// `exact` or `lower-bound`.
    #[serde(default)]
    recompiles: String,
}

/// What the trainer's own hook told.
#[derive(Deserialize)]
pub(crate) struct Event {
    t: f64,
    event: String,
    phase: Option<String>,
    epoch: Option<u64>,
    done: Option<f64>,
    total: Option<f64>,
    source: Option<String>,
}

/// What holds from `t` on.
#[derive(Clone, Default)]
struct State {
    t: f64,
    phase: Option<String>,
    epoch: Option<u64>,
    val: Option<f64>,
}

/// Hits and moments.
#[derive(Default)]
struct Share(u32, u32);

impl Share {
    fn add(&mut self, right: bool) {
        self.0 += u32::from(right);
        self.1 += 1;
    }
}

/// Every scored figure of a case, by its name.
pub(crate) fn score(
    meta: &Meta,
    mut events: Vec<Event>,
    appends: &[f64],
    beliefs: &[Value],
) -> BTreeMap<String, f64> {
    events.sort_by(|a, b| a.t.total_cmp(&b.t));
    let (truth, believed) = (
        truth(&events),
        beliefs.iter().map(belief).collect::<Vec<_>>(),
    );
    let phases: Vec<&Event> = events.iter().filter(|e| e.event == "phase").collect();
    let is = |e: &Event, names: &[&str]| names.contains(&e.phase.as_deref().unwrap_or_default());
    let start = phases
        .iter()
        .find(|e| is(e, &["train", "validation"]))
        .or(phases.last())
        .map_or(0.0, |e| e.t);
    let lives = events.iter().filter(|e| e.event != "exit");
    let end = lives.map(|e| e.t).fold(0.0, f64::max);
    // Between the end of a pass and the next phase the trainer does something that no phase names.
    let idle: Vec<(f64, f64)> = events
        .iter()
        .filter(|e| e.event.ends_with("_end"))
        .map(|e| (e.t, phases.iter().find(|p| p.t >= e.t).map_or(end, |p| p.t)))
        .collect();
    let failed = phases.iter().rev().find(|e| is(e, &["failed"]));
    let by_exit = failed.is_some_and(|e| e.source.as_deref() == Some("recorder"));
    let (mut phase, mut epoch, mut val) = <(Share, Share, Share)>::default();
    let mut t = start + STEP;
    while t < end {
        let now = t;
        t += STEP;
        if idle.iter().any(|&(from, to)| from <= now && now < to) {
            continue;
        }
        let appended = appends[..appends.partition_point(|&a| a <= now)]
            .last()
            .copied();
        let appended = appended.unwrap_or(0.0);
        let grace = if now - appended > GRACE {
            GRACE
        } else {
            -GRACE
        };
        let possible = between(&truth, (appended + grace).min(now), now);
        let belief = between(&believed, now, now).last().cloned();
        let belief = belief.filter(|b| b.t <= now).unwrap_or_default();
        let real = between(&truth, now, now)
            .last()
            .cloned()
            .unwrap_or_default();
        // The log tells of a failure before the recorder saw the exit.
        let told = by_exit && belief.phase.as_deref() == Some("failed") && end - now <= EXIT;
        phase.add(told || possible.iter().any(|p| p.phase == belief.phase));
        let validates = |s: &State| s.phase.as_deref() == Some("validation");
        if real.epoch.is_some() && (validates(&real) || real.phase.as_deref() == Some("train")) {
            epoch.add(possible.iter().any(|p| p.epoch == belief.epoch));
        }
        if validates(&real) && real.val.is_some() && !told {
            // Progress goes on silently: what the log said at an append stays right until the next one.
            let seen = between(&truth, appended - GRACE, now);
            let reachable = seen.iter().filter(|s| validates(s)).filter_map(|s| s.val);
            let low = reachable.clone().fold(f64::INFINITY, f64::min);
            let high = reachable.fold(f64::NEG_INFINITY, f64::max);
            val.add(match belief.val {
                Some(val) => (low - NEAR..=high + NEAR).contains(&val),
                None => low <= NEAR || (!validates(&belief) && seen.iter().any(|s| !validates(s))),
            });
        }
    }
    let entered = |phases: &mut dyn Iterator<Item = Option<&str>>| {
        let mut before = None;
        phases
            .filter(|&now| std::mem::replace(&mut before, now) != now)
            .filter(|&now| now == Some("validation"))
            .count()
    };
    let passes = phases.iter().filter(|e| is(e, &["validation"])).count();
    let ending = phases.iter().rev().find(|e| is(e, &["finished", "failed"]));
    let last = believed.last().and_then(|b| b.phase.clone());
    let real = events.iter().filter(|e| e.event == "recompile").count() as u64;
    let counted = beliefs
        .iter()
        .rev()
        .find_map(|b| b["recompile_count"].as_u64());
    let counted = counted.unwrap_or(0);
    let exact = |right: bool| Some(f64::from(u8::from(right)));
    let share = |Share(hits, of): Share| (of > 0).then(|| f64::from(hits) / f64::from(of));
    [
        ("phase", share(phase)),
        ("epoch", share(epoch)),
        ("val", share(val)),
        (
            "passes",
            exact(entered(&mut believed.iter().map(|b| b.phase.as_deref())) == passes),
        ),
        (
            "ending",
            exact(last == ending.and_then(|e| e.phase.clone())),
        ),
        (
            "recompiles",
            exact(match meta.recompiles.as_str() {
                "exact" => counted == real,
                _ => (1..=real).contains(&counted),
            }),
        ),
    ]
    .into_iter()
    .filter(|(name, _)| meta.scored.iter().any(|scored| scored == name))
    .filter_map(|(name, figure)| Some((name.to_owned(), figure?)))
    .collect()
}

/// A key keeps its last value.
fn truth(events: &[Event]) -> Vec<State> {
    let mut states = Vec::new();
    let mut now = State::default();
    for event in events {
        now.t = event.t;
        match (event.event.as_str(), event.done, event.total) {
            ("phase", ..) => {
                now.phase.clone_from(&event.phase);
                now.epoch = event.epoch.or(now.epoch);
                now.val = (event.phase.as_deref() == Some("validation")).then_some(0.0);
            }
            ("progress", Some(done), Some(total)) if total > 0.0 => now.val = Some(done / total),
            _ => continue,
        }
        states.push(now.clone());
    }
    states
}

fn belief(row: &Value) -> State {
    let of = row["val_total"].as_f64().filter(|&of| of > 0.0);
    State {
        t: row["t"].as_f64().expect("a time"),
        phase: row["phase"].as_str().map(str::to_owned),
        epoch: row["epoch"].as_u64(),
        val: row["val_done"].as_f64().zip(of).map(|(done, of)| done / of),
    }
}

/// All that held at some moment of [from, to]; the first of all if nothing did yet.
fn between(states: &[State], from: f64, to: f64) -> &[State] {
    let first = states.partition_point(|s| s.t <= from).saturating_sub(1);
    &states[first..states.partition_point(|s| s.t <= to).max(first)]
}
