use super::*;
use crate::job::observation::Observation;
use crate::job::verdict::{Verdict, judge};
use crate::node::process::{Counters, Seen, Watcher};

/// A run in training, whose process `pid` lives and works at `now`.
fn run(name: &str, pid: u32, now: Unix) -> Run {
    let mut run = Run::new(name, Limits::default());
    run.job.apply(Observation::Phase(Phase::Train), now);
    run.log.up = true;
    let counters = Counters {
        processes: 1,
        ..Counters::default()
    };
    run.processes = Some(Witnessed {
        seen: Seen {
            pids: vec![pid],
            counters,
            ..Seen::default()
        },
        evidence: None,
        most_ranks: None,
    });
    run
}

fn gpu(index: u32, pids: &[u32], watts: f64) -> Gpu {
    Gpu {
        index,
        uuid: format!("GPU-{index}"),
        up: true,
        util: Some(1.0),
        power_watts: Some(watts),
        power_limit_watts: Some(700.0),
        pids: Some(pids.to_vec()),
        ..Gpu::default()
    }
}

fn page(state: &mut State, now: Unix) -> String {
    prometheus::TextEncoder::new()
        .encode_to_string(&state.families(now))
        .expect("a page")
}

#[test]
fn a_gpu_belongs_to_the_run_whose_process_holds_it() {
    let mut state = State::default();
    for (name, pid) in [("a", 1), ("b", 2)] {
        state.runs.insert(name.to_owned(), run(name, pid, 100.0));
    }
    state.record_gpus(
        Ok(vec![
            gpu(0, &[1], 600.0),
            gpu(1, &[9], 600.0),
            gpu(2, &[1, 2], 600.0),
        ]),
        101.0,
    );
    let page = page(&mut state, 102.0);
    for series in [
        "training_run_gpu{run=\"a\",gpu=\"0\",uuid=\"GPU-0\"} 1",
        "training_run_gpu{run=\"a\",gpu=\"2\",uuid=\"GPU-2\"} 1",
        "training_run_gpu{run=\"b\",gpu=\"2\",uuid=\"GPU-2\"} 1",
        "training_gpu_state{gpu=\"0\",uuid=\"GPU-0\",state=\"working\"} 1",
        // What two runs share tells of neither.
        "training_gpu_state{gpu=\"2\",uuid=\"GPU-2\",state=\"unknown\"} 1",
        "training_last_gpu_work_timestamp_seconds{run=\"a\"} 101",
    ] {
        assert!(page.contains(series), "{series}\n{page}");
    }
    for absent in [
        "training_run_gpu{run=\"a\",gpu=\"1\"",
        "training_last_gpu_work_timestamp_seconds{run=\"b\"",
    ] {
        assert!(!page.contains(absent), "{absent}\n{page}");
    }
}

#[test]
fn a_failed_reading_leaves_no_series() {
    let mut state = State::default();
    state.record_gpus(Ok(vec![gpu(0, &[], 600.0)]), 100.0);
    assert!(page(&mut state, 100.0).contains("training_gpu_power_watts"));
    state.record_gpus(Err("the driver is gone".to_owned()), 101.0);
    let page = page(&mut state, 101.0);
    assert!(
        !page.contains("training_gpu_") && page.contains("training_nvml_up 0"),
        "{page}"
    );
}

#[test]
fn nobody_there_tells_something_only_if_somebody_was() {
    let there = |cpu| Seen {
        pids: vec![1],
        counters: Counters {
            processes: 1,
            main_cpu_seconds: cpu,
            ..Counters::default()
        },
        ..Seen::default()
    };
    let mut state = State::default();
    state.runs.insert("a".to_owned(), run("a", 1, 100.0));
    let mut watcher = Watcher::new(60.0, 1.0);
    let mut after = |at: Unix, seen: Seen| {
        let found = watcher.look(at, seen);
        state.record_processes("a", found, at);
        state.runs["a"].job.phase
    };
    assert_eq!(after(100.0, Seen::default()), Phase::Train);
    assert_eq!(
        after(105.0, Seen::default()),
        Phase::Train,
        "its writers were never seen"
    );
    assert_eq!(after(110.0, there(1.0)), Phase::Train);
    assert_eq!(
        after(115.0, Seen::default()),
        Phase::Train,
        "one look may miss them"
    );
    assert_eq!(after(120.0, Seen::default()), Phase::Failed);
}

#[test]
fn history_alone_is_not_judged() {
    let mut dead = run("a", 1, 100.0);
    dead.processes = None;
    assert_eq!(judge(&dead.facts(&[], 9000.0)), Verdict::NotJudged);
    dead.alive = true;
    assert_eq!(judge(&dead.facts(&[], 9000.0)), Verdict::Hung);
}
