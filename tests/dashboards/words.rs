//! Numbers that a panel shows as words: Grafana colours bands and cells by number, and the worst sorts first.
//!
//! The words of a verdict are the product's own.

use serde_json::{Map, Value, json};
use training_exporter::job::Phase;
use training_exporter::job::verdict::Verdict;

/// A number, what it is called in a label, how it is shown, and in which colour.
type Word = (i64, &'static str, &'static str, &'static str);

/// The number of a run that no exporter shows any more; no rule says so, since no rule is told.
pub(crate) const UNWATCHED: i64 = 3;

/// Verdicts, those that need somebody first.
pub(crate) fn verdicts() -> Vec<Word> {
    let of = |code, verdict: Verdict, colour| (code, verdict.name(), verdict.meaning(), colour);
    vec![
        of(1, Verdict::Hung, "red"),
        of(2, Verdict::LostRank, "red"),
        (UNWATCHED, "", "Not watched: no exporter shows it", "purple"),
        of(4, Verdict::Blind, "purple"),
        (5, "node_missing", "A node of it is not watched", "purple"),
        of(6, Verdict::Failed, "dark-orange"),
        of(7, Verdict::Vanished, "dark-orange"),
        of(8, Verdict::Waiting, "orange"),
        of(9, Verdict::Slow, "orange"),
        of(10, Verdict::Unproven, "orange"),
        of(11, Verdict::Closing, "yellow"),
        of(12, Verdict::Suspended, "yellow"),
        of(13, Verdict::NotJudged, "semi-dark-purple"),
        of(14, Verdict::Starting, "light-blue"),
        of(15, Verdict::Checkpointing, "semi-dark-blue"),
        of(16, Verdict::ValidationIdle, "super-light-green"),
        of(17, Verdict::Validating, "light-green"),
        of(18, Verdict::Training, "green"),
        of(19, Verdict::Preempted, "#808080"),
        of(20, Verdict::Cancelled, "#808080"),
        of(21, Verdict::Finished, "#808080"),
    ]
}

/// Phases, numbered apart from verdicts: both stand in one timeline.
pub(crate) fn phases() -> Vec<Word> {
    let colour = |phase: Phase| match phase {
        Phase::Init => "light-blue",
        Phase::Train => "green",
        Phase::Validation => "light-green",
        Phase::Checkpoint => "semi-dark-blue",
        Phase::Finished => "#808080",
        Phase::Failed => "dark-orange",
        Phase::Unknown => "semi-dark-purple",
    };
    let numbered = (101..).zip(Phase::ALL);
    numbered
        .map(|(code, phase)| (code, phase.name(), phase.name(), colour(phase)))
        .collect()
}

/// States of a GPU.
pub(crate) const GPU_STATES: &[Word] = &[
    (-1, "", "cannot be read", "purple"),
    (0, "", "lost", "red"),
    (1, "spinning", "spinning", "orange"),
    (2, "idle", "idle", "blue"),
    (3, "unknown", "unknown", "semi-dark-purple"),
    (4, "working", "working", "green"),
];

fn list(name: &str) -> Vec<Word> {
    match name {
        "verdict" => verdicts(),
        "phase" => phases(),
        "gpu_state" => GPU_STATES.to_vec(),
        "no_run" => vec![(-1, "", "No exporter shows this run", "purple")],
        "not_known" => vec![(-1, "", "Not known", "purple")],
        "answers" => vec![
            (-1, "", "No target", "purple"),
            (0, "", "Does not answer", "red"),
            (1, "", "Answers", "green"),
        ],
        "reads" => vec![
            (0, "", "Cannot be read", "orange"),
            (1, "", "Is read", "green"),
        ],
        "accepted" => vec![(0, "", "Refused", "orange"), (1, "", "In force", "text")],
        "yes_no" => vec![(0, "", "no", "text"), (1, "", "yes", "orange")],
        "held" => vec![(1, "", "held", "blue")],
        "holds" => vec![(1, "", "held down", "orange")],
        _ => panic!("no list of words is called `{name}`"),
    }
}

/// The value mappings of these lists.
pub(crate) fn mappings(names: &[String]) -> Value {
    if names == ["severity"] {
        return json!([{"type": "value", "options": {
            "critical": {"text": "critical", "color": "red", "index": 0},
            "warning": {"text": "warning", "color": "orange", "index": 1},
            "info": {"text": "info", "color": "blue", "index": 2},
        }}]);
    }
    let mut options = Map::new();
    for (index, (code, _, text, colour)) in names.iter().flat_map(|name| list(name)).enumerate() {
        options.insert(
            code.to_string(),
            json!({"text": text, "color": colour, "index": index}),
        );
    }
    if options.is_empty() {
        return json!([]);
    }
    json!([{"type": "value", "options": options}])
}

/// The expression of the number: each of the words, where its series is there.
pub(crate) fn number(words: &[Word], by: &str, series: impl Fn(&str) -> String) -> String {
    let arms: Vec<String> = words
        .iter()
        .filter(|(_, name, _, _)| !name.is_empty())
        .map(|(code, name, _, _)| format!("{code} * {}", series(name)))
        .collect();
    format!("max by ({by}) (\n  {}\n)", arms.join("\n  or "))
}
