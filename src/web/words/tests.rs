use super::*;
use crate::job::cadence::Limits;
use crate::job::observation::Observation;
use crate::log::listener::Heard;
use crate::node::process::{Seen, Watcher};
use crate::web::view::View;

#[test]
fn counts_have_commas() {
    assert_eq!(
        [0, 999, 1866, 1_234_567].map(grouped),
        ["0", "999", "1,866", "1,234,567"]
    );
}

#[test]
fn a_path_is_one_word_for_a_shell() {
    assert_eq!(quoted("/runs/a-1/train.log"), "/runs/a-1/train.log");
    assert_eq!(quoted("/runs/$(id) x"), "'/runs/$(id) x'");
    assert_eq!(quoted("it's"), r"'it'\''s'");
    assert_eq!(quoted("/a b/$(x)'y"), r"'/a b/$(x)'\''y'");
    assert_eq!(quoted(""), "''");
}

/// A run whose log can be read and has said this, in so many lines.
fn run(said: Vec<Observation>, lines: u64) -> Run {
    let mut run = Run::new("r", Limits::default());
    run.info.log_path = "/runs/r.log".to_owned();
    (run.log.up, run.log.last_write) = (true, Some(1000.0));
    let heard = Heard {
        matched: said.len() as u64,
        said,
        bytes: 40 * lines,
        lines,
        ..Heard::default()
    };
    run.heard(heard, None, 1000.0, true);
    run
}

fn view(run: Run) -> View {
    let mut state = State::default();
    state.runs.insert(run.name.clone(), run);
    View::of(&state, 1001.0)
}

fn values(n: usize) -> Vec<Observation> {
    let value = |n| Observation::Value {
        name: "lr".to_owned(),
        value: n as f64,
    };
    (0..n).map(value).collect()
}

#[test]
fn a_log_that_says_much_and_no_phase_is_told_from_a_young_one() {
    for (said, lines, headline) in [
        (
            values(104),
            159,
            "Not judged: none of the 159 lines of its log tells a phase or a step; 104 tell something else",
        ),
        (
            Vec::new(),
            1389,
            "Not judged: not one of the 1,389 lines of its log is understood",
        ),
        (
            values(3),
            12,
            "Not judged yet: its log has told no phase and no step",
        ),
    ] {
        let view = view(run(said, lines));
        let told = &view.runs[0];
        assert_eq!((told.headline.as_str(), told.level), (headline, "unknown"));
        let step = told.first_step.as_ref();
        let step = step.map(|step| (step.runbook, step.command.as_str()));
        let replay = "training-exporter replay --format text /runs/r.log | tail";
        let many = lines >= 100;
        assert_eq!(step, many.then_some(("TrainingLogUnparsed", replay)));
        let spots = view.blind_spots.join("\n");
        assert_eq!(spots.contains("\"Add your trainer\""), many, "{spots}");
    }
    let stepping = values(104).into_iter().chain([
        Observation::Step { step: 1, of: None },
        Observation::Step { step: 2, of: None },
    ]);
    assert!(!run(stepping.collect(), 300).unparsed());
    assert!(!run(vec![Observation::Phase(Phase::Init)], 300).unparsed());
}

#[test]
fn a_log_that_was_just_taken_up_is_not_called_absent() {
    let mut fresh = Run::new("r", Limits::default());
    let told = view(fresh.clone()).runs.remove(0);
    assert!(told.headline.contains("just been taken up"));
    assert_eq!(told.witnesses[0].says, "unknown");
    fresh.log.error = Some("/runs/r.log: No such file or directory".to_owned());
    let told = view(fresh).runs.remove(0);
    assert!(told.headline.contains("not there, or cannot be read"));
    assert_eq!(told.witnesses[0].says, "blind");
}

#[test]
fn processes_that_nobody_sees_are_hidden_absent_or_not_looked_at() {
    let training = || run(vec![Observation::Phase(Phase::Train)], 1);
    for (seen, says, word, spot) in [
        (None, "unknown", "have not been looked at yet", false),
        (Some(None), "blind", "CAP_SYS_PTRACE", true),
        (
            Some(Some(Seen::default())),
            "blind",
            "No process of this node writes its log",
            true,
        ),
    ] {
        let mut state = State::default();
        state.runs.insert("r".to_owned(), training());
        if let Some(seen) = seen {
            state.look("r", seen, &mut Watcher::new(60.0, 1.0), 1000.5);
        }
        let view = View::of(&state, 1001.0);
        let witness = &view.runs[0].witnesses[1];
        assert_eq!(witness.says, says);
        assert!(witness.words.contains(word), "{}", witness.words);
        let spots = view.blind_spots.join("\n");
        assert_eq!(
            spots.contains("only time can prove a hang"),
            spot,
            "{spots}"
        );
        assert_eq!(
            spots.contains("CAP_SYS_PTRACE"),
            word == "CAP_SYS_PTRACE",
            "{spots}"
        );
    }
}

#[test]
fn a_node_without_gpus_says_why_once() {
    let why =
        format!("{NONE}, since it has no driver for them (none.so). If there are some, install it");
    for (error, says, runs) in [
        (why.as_str(), "rests", false),
        ("GPU 0: lost", "blind", true),
    ] {
        let mut state = State::default();
        state.runs.insert("r".to_owned(), run(Vec::new(), 1));
        state.record_gpus(Err(error.to_owned()), 1000.0);
        let view = View::of(&state, 1001.0);
        let witness = &view.runs[0].witnesses[2];
        assert_eq!(witness.says, says);
        assert_eq!(witness.words.contains(error), runs, "{}", witness.words);
        let spots = view.blind_spots.iter();
        assert_eq!(spots.filter(|spot| spot.contains(&error[1..])).count(), 1);
    }
}
