use super::*;
use crate::job::Phase;
use crate::job::cadence::Limits;
use crate::job::observation::{Observation, Progress};
use crate::node::gpu::Gpu;
use crate::node::process::{Counters, Seen, Witnessed};
use crate::state::{Run, State};

/// A run that validates since 1000: 1,204 of 1,866 are done.
fn validating(name: &str) -> Run {
    let mut run = Run::new(name, Limits::default());
    run.log.up = true;
    run.log.last_write = Some(1000.0);
    run.alive = true;
    run.info.log_path = "/runs/train.log".to_owned();
    for said in [
        Observation::Epoch {
            epoch: 1,
            of: Some(2),
        },
        Observation::Phase(Phase::Validation),
        Observation::Validation(Progress {
            done: 1204,
            of: Some(1866),
        }),
    ] {
        run.job.apply(said, 1000.0);
    }
    let counters = Counters {
        processes: 9,
        read_bytes: Some(0.0),
        written_bytes: Some(0.0),
        ..Counters::default()
    };
    run.processes = Some(Witnessed {
        seen: Seen {
            pids: vec![71, 72],
            ranks: Some(1),
            counters,
        },
        evidence: None,
        most_ranks: None,
    });
    run.job.worked(1000.0);
    run
}

fn state(runs: impl IntoIterator<Item = Run>) -> State {
    let mut state = State::default();
    state.runs = runs
        .into_iter()
        .map(|run| (run.name.clone(), run))
        .collect();
    state.exporter.ready = true;
    state.record_gpus(
        Ok(vec![Gpu {
            uuid: "GPU-0".to_owned(),
            up: true,
            util: Some(0.0),
            power_watts: Some(80.0),
            power_limit_watts: Some(700.0),
            pids: Some(vec![71]),
            ..Gpu::default()
        }]),
        1000.0,
    );
    state.tick(1000.0);
    state
}

fn page(state: &mut State, now: f64) -> String {
    state.check_stall(now);
    render(&View::of(state, now), &Asked::default())
}

#[test]
fn what_a_run_is_called_cannot_become_html() {
    let nasty = "<script>alert(1)</script>\"' onload=x";
    let mut run = validating(nasty);
    run.info.log_path = nasty.to_owned();
    run.info.user = nasty.to_owned();
    run.log.error = Some(nasty.to_owned());
    let page = page(&mut state([run]), 1002.0);
    assert!(
        !page.contains("<script") && page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{page}"
    );
    assert!(!page.contains("\"' onload"), "{page}");
    assert!(
        page.contains("href=\"/?run=%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%27%20onload%3Dx\"")
    );
    assert!(
        !page.contains(" style=") && !page.contains("https:"),
        "the page asks nothing of other hosts, and its style stands in one place"
    );
}

#[test]
fn a_silent_validation_is_told_with_its_numbers() {
    let mut state = state([validating("a")]);
    let run = state.runs.get_mut("a").expect("there");
    run.history.phase(Phase::Train, Some(900.0), 901.0);
    let view = View::of(&state, 1002.0);
    assert_eq!(
        view.runs[0].headline,
        "Validating, GPUs idle as expected: 1,204 of 1,866 batches, the last one 2.0 s ago"
    );
    let page = render(&view, &Asked::default());
    for part in [
        "64.5 %",
        "Since last progress",
        "of 10 min 00 s allowed",
        "1 of 1 idle, at 0 % and 80 W.",
        "9: 1 rank, 8 loader workers",
        "71, 72",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("/runbooks/"), "nobody need do anything");
}

#[test]
fn the_last_validation_tells_how_long_this_one_takes() {
    let mut run = validating("a");
    for (phase, since) in [(Phase::Validation, 100.0), (Phase::Train, 760.0)] {
        run.history.phase(phase, Some(since), since);
    }
    let view = View::of(&state([run]), 1002.0);
    let left = view.runs[0]
        .validation
        .and_then(|v| v.remaining_seconds)
        .expect("an estimate");
    assert!(
        (left - 660.0 * (1866.0 - 1204.0) / 1866.0).abs() < 1.0,
        "{left}"
    );
    assert!(
        view.runs[0]
            .headline
            .ends_with("the last validation took 11 min 00 s")
    );
    assert!(render(&view, &Asked::default()).contains("about 3 min 54 s to go"));
}

#[test]
fn a_hung_run_names_the_runbook_and_the_first_command() {
    let mut state = state([validating("a")]);
    let hung = page(&mut state, 9000.0);
    // The file thread is dead as well by then: nothing may be said of the run but that.
    assert!(hung.contains("Blind: its log does not answer"), "{hung}");
    state.files_at_work = Some(9000.0);
    let hung = page(&mut state, 9000.0);
    for part in [
        "Hung in validation",
        "Act now",
        "<code>sudo py-spy dump --pid 71</code>",
        "href=\"/runbooks/TrainingValidationHung\"",
        "1,204 of 1,866 batches, then nothing for",
        "over the allowed 10 min 00 s",
        "<title>1 critical: ",
    ] {
        assert!(hung.contains(part), "{part}: {hung}");
    }
}

#[test]
fn nothing_comforts_while_the_logs_are_not_looked_at() {
    let mut finished = validating("b");
    finished.job.apply(Observation::Phase(Phase::Train), 1000.0);
    finished.processes = None;
    let mut state = state([validating("a"), finished]);
    state.exporter.ready = true;
    for (now, comforts) in [(1002.0, true), (1100.0, false)] {
        let page = page(&mut state, now);
        for word in [
            "as expected",
            ">OK<",
            "Training</p>",
            "to go",
            " allowed",
            "under the ceiling",
        ] {
            let there = page.contains(word);
            assert!(comforts || !there, "{word} at {now}: {page}");
        }
        assert_eq!(page.contains("as expected"), comforts, "{page}");
        assert_eq!(page.contains("role=\"alert\""), !comforts, "{page}");
        assert_eq!(page.contains("<title>blind: "), !comforts, "{page}");
    }
}

#[test]
fn a_log_that_cannot_be_read_is_blind_and_its_phase_is_old() {
    let mut run = validating("a");
    run.log.up = false;
    run.log.error = Some("/runs/train.log: Permission denied".to_owned());
    let page = page(&mut state([run]), 1002.0);
    for part in [
        "Blind: its log cannot be read",
        "as last known",
        "/runbooks/TrainingLogNotFollowed",
        "timeout 10 ls -l /runs/train.log",
        "Permission denied",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(
        !page.contains("as expected") && !page.contains(">OK<") && !page.contains("to go"),
        "{page}"
    );
}

#[test]
fn processes_that_are_not_looked_at_any_more_say_nothing() {
    let mut state = state([validating("a")]);
    state.record_source("process", Ok(()), 0.1, 1000.0);
    let says = |state: &State, now| View::of(state, now).runs[0].witnesses[1].says;
    assert_eq!(says(&state, 1002.0), "unknown");
    assert!(page(&mut state, 1002.0).contains(">not known yet<"));
    assert_eq!(says(&state, 1100.0), "blind");
    assert!(page(&mut state, 1100.0).contains("process: Not looked at for 100 s"));
}

#[test]
fn an_empty_node_says_what_it_looked_at_and_what_to_do() {
    let mut empty = state([]);
    let nothing = page(&mut empty, 1001.0);
    assert!(
        nothing.contains("No run was found") && nothing.contains("--log.path"),
        "{nothing}"
    );
    empty.exporter.looks_for = vec!["/runs/*/train.log".to_owned()];
    let page_of = page(&mut empty, 1001.0);
    assert!(page_of.contains("<li>/runs/*/train.log</li>"), "{page_of}");
    empty.exporter.ready = false;
    let early = page(&mut empty, 1001.0);
    assert!(
        early.contains("that no run is shown means nothing"),
        "{early}"
    );
}

#[test]
fn two_hundred_runs_are_two_hundred_rows_and_a_small_page() {
    let many = |n: usize| {
        state((0..n).map(|n| {
            let mut run = validating(&format!("run-{n:04}"));
            if n == 77 {
                run.job.apply(
                    Observation::Fault(crate::job::observation::Fault::OutOfMemory),
                    1000.0,
                );
                run.job.exited(1000.0);
            }
            for slot in 0..1000_u32 {
                run.history.drew(
                    Some(f64::from(slot % 7) / 7.0),
                    Some(f64::from(slot % 5)),
                    f64::from(slot) * 20.0,
                );
                run.history.phase(
                    if slot % 2 == 0 {
                        Phase::Train
                    } else {
                        Phase::Validation
                    },
                    Some(f64::from(slot)),
                    f64::from(slot),
                );
            }
            run
        }))
    };
    let mut all = many(200);
    let html = page(&mut all, 1002.0);
    assert_eq!(
        html.matches("<a href=\"/?run=run-").count(),
        200 + 1 + FOLDED
    );
    let first = html
        .find("<ol><li class=\"critical\"")
        .expect("the worst is first");
    assert!(
        html[first..].find("run-0077").is_some_and(|at| at < 200),
        "{html}"
    );
    assert!(html.len() < 600_000, "{}", html.len());
    let more = page(&mut many(ROWS + 100), 1002.0);
    assert!(
        more.contains("And 100 more") && more.len() < 800_000,
        "{}",
        more.len()
    );
    let asked = Asked {
        run: Some("run-0123".to_owned()),
        pause: Some("1".to_owned()),
    };
    let one = render(&View::of(&all, 1002.0), &asked);
    assert!(
        one.contains("run-0123")
            && !one.contains("run-0124")
            && !one.contains("http-equiv=\"refresh\"")
    );
    assert!(
        one.contains("<a href=\"/?run=run-0123\">Refresh again</a>"),
        "{one}"
    );
}

#[test]
fn a_run_that_is_not_there_is_no_answer_and_the_others_are_named() {
    let view = View::of(&state([validating("a"), validating("b")]), 1002.0);
    for (run, there) in [("a", true), ("c", false)] {
        let asked = Asked {
            run: Some(run.to_owned()),
            pause: None,
        };
        assert_eq!(asked.is_there(&view), there, "{run}");
        let page = render(&view, &asked);
        assert_eq!(page.contains("No run of this name"), !there, "{page}");
        assert_eq!(page.contains("href=\"/?run=b\""), !there, "{page}");
    }
}

#[test]
fn json_leaves_out_what_is_unknown() {
    let mut run = validating("a");
    run.processes = None;
    let view = View::of(&state([run]), 1002.0);
    let json = view.json();
    let run = json["runs"][0].as_object().expect("a run");
    assert!(!run.values().any(serde_json::Value::is_null), "{json}");
    assert!(
        run.contains_key("witnesses") && !run.contains_key("processes"),
        "{json}"
    );
}
