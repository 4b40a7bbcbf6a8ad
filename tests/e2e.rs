//! From end to end, on loopback and in seconds: real processes that really hang, a driver that is asked by NVML, the
//! exporter's binary, Prometheus with the shipped rules, Alertmanager with the shipped routes, and a webhook that hears
//! what a person would.
//!
//! How long each hang took from the last file read to the webhook is told, and kept in `target/e2e-*.txt`.

#![expect(
    clippy::disallowed_methods,
    reason = "it starts programs and measures what they do"
)]

#[path = "e2e/fleet.rs"]
mod fleet;
#[path = "e2e/incidents.rs"]
mod incidents;
#[path = "e2e/programs.rs"]
mod programs;
#[path = "e2e/rules.rs"]
mod rules;
#[path = "e2e/stage.rs"]
mod stage;
#[path = "e2e/stuck.rs"]
mod stuck;
mod support;
#[path = "e2e/told.rs"]
mod told;
#[path = "e2e/webhook.rs"]
mod webhook;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fleet::Fleet;
use programs::wait;
use rules::FASTER;
use stage::{Data, Hang, Node, START};
use webhook::{Notice, Webhook};

/// How long something may take that takes seconds: machines may be busy.
const PATIENCE: f64 = 90.0;

/// One test measures time, so one runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says something that is shown even if the test passes, and keeps it in `target/e2e-NAME.txt`.
fn tell(name: &str, text: &str) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("target");
    fs::write(target.join(format!("e2e-{name}.txt")), format!("{text}\n")).expect("written");
    let _ = writeln!(io::stderr(), "{text}");
}

/// The Python interpreter, if all programs are here.
fn python() -> Option<String> {
    let output = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().ok();
        let found = output.filter(|output| output.status.success());
        if found.is_none() {
            let _ = writeln!(io::stderr(), "skipped: no {program} here");
        }
        found
    };
    output("prometheus", &["--version"])?;
    output("prometheus-alertmanager", &["--version"])?;
    // The interpreter itself, not a script that looks for it.
    let asked = output("python3", &["-c", "import sys; print(sys.executable)"])?;
    Some(String::from_utf8_lossy(&asked.stdout).trim().to_owned())
}

/// The alert that a hang leads to, and how the page proves it. A lost rank is `TrainingHung` in every phase.
fn expected(hang: Hang) -> (&'static str, &'static str, &'static str) {
    let nobody = "\nProof: no process and no GPU worked for ";
    match hang {
        Hang::Read | Hang::Lock => ("TrainingValidationHung", "hung", nobody),
        Hang::Stop => (
            "TrainingHung",
            "lost_rank",
            "\nProof: a rank is stopped or gone on 127.0.0.1, others live.\n",
        ),
    }
}

#[test]
fn a_silent_validation_is_only_mentioned_and_each_hang_of_it_pages() {
    let Some(python) = python() else { return };
    let _alone = alone();
    let webhook = Webhook::start();
    let mut nodes = [
        Node::start(&python, "read-hangs", Hang::Read, Data::Counted),
        Node::start(&python, "rank-stops", Hang::Stop, Data::Watched),
        Node::start(&python, "lock-is-taken", Hang::Lock, Data::Unseen),
    ];
    let fleet = Fleet::start(&nodes.each_ref().map(|node| node.address), webhook.address);

    nodes.iter().for_each(|node| trains(node, &fleet));
    nodes.iter().for_each(|node| node.order("validate"));
    for node in &mut nodes {
        wait(
            PATIENCE,
            || node.in_phase("validation").then_some(()),
            || node.view().to_string(),
        );
        node.rest();
    }
    nodes
        .iter()
        .for_each(|node| validates(node, &fleet, &webhook));
    let critical = |notice: &Notice| notice.label("severity") == "critical";
    let told = webhook.notices();
    assert!(!told.iter().any(critical), "nobody hangs: {told:?}");

    nodes.iter().for_each(Node::hang);
    let mut latencies =
        format!("from the last file read to the webhook, rules and routes {FASTER} times faster:");
    for node in &nodes {
        write!(latencies, "\n  {}", pages(node, &fleet, &webhook)).expect("text");
    }
    tell("latency", &latencies);

    nodes.iter_mut().for_each(Node::go_on);
    for node in &nodes {
        let (alert, _, _) = expected(node.hang);
        let resolved = || webhook.first(node.run, alert, false);
        let notice = wait(PATIENCE, resolved, || {
            format!("{} resolved: {}", node.run, node.view())
        });
        assert_eq!(notice.receiver, "pager");
        node.order("train");
    }
    for node in &nodes {
        let epoch = || {
            node.metric("training_epoch", "")
                .filter(|epoch| *epoch == 2.0)
        };
        wait(PATIENCE, epoch, || node.view().to_string());
        assert_eq!(
            node.metric("training_validation_duration_seconds_count", ""),
            Some(1.0)
        );
    }
    nothing_else(&nodes, &webhook);
}

/// The node sees all of it: log, processes, and the GPUs that they hold.
fn trains(node: &Node, fleet: &Fleet) {
    let seen = || {
        let view = node.view();
        let working = view["gpus"]
            .as_array()?
            .iter()
            .filter(|gpu| gpu["state"] == "working");
        let seen = view["framework"] == "speculators"
            && view["phase"] == "train"
            && view["step"].as_u64() > Some(5)
            && view["processes"] == 2
            && working.count() == 4
            && node
                .metric("training_last_work_timestamp_seconds", "")
                .is_some()
            && fleet.verdict(node.run).as_deref() == Some("training");
        seen.then_some(())
    };
    wait(PATIENCE, seen, || node.view().to_string());
}

/// The log is silent for longer than any ceiling while files are read: that is mentioned, and no more.
fn validates(node: &Node, fleet: &Fleet, webhook: &Webhook) {
    let mention = || webhook.first(node.run, "TrainingValidationIdle", true);
    let notice = wait(PATIENCE, mention, || {
        format!("{}: {}", node.run, node.view())
    });
    wait(
        PATIENCE,
        || (node.log_silence() > 2.0 * START).then_some(()),
        || "silence".to_owned(),
    );
    let labels = ["run", "user", "team", "severity"].map(|name| notice.label(name));
    assert_eq!(labels, [node.run, "ada", "speech", "info"]);
    // The example sends what is only information nowhere.
    assert_eq!(notice.receiver, "nobody");
    let text = &notice.annotations["description"];
    for part in [
        "validation, epoch 1",
        "; 4 of 4 GPUs idle.",
        "\nNothing to do.",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert_eq!(fleet.verdict(node.run).as_deref(), Some("validation_idle"));
    assert_eq!(node.view()["verdict"], "validation_idle", "{}", node.view());
}

/// The page comes, and says what is the matter. How long it took, in words.
fn pages(node: &Node, fleet: &Fleet, webhook: &Webhook) -> String {
    let (alert, verdict, proof) = expected(node.hang);
    let page = || webhook.first(node.run, alert, true);
    let notice = wait(PATIENCE, page, || {
        format!(
            "{alert} of {}: {} {:?}",
            node.run,
            node.view(),
            webhook.notices()
        )
    });
    let labels = ["run", "user", "team", "severity"].map(|name| notice.label(name));
    assert_eq!(labels, [node.run, "ada", "speech", "critical"]);
    assert_eq!(notice.receiver, "pager");
    let text = &notice.annotations["description"];
    let unseen =
        "\nNothing counts this validation; it is judged by the work of its processes and GPUs.\n";
    let run = node.run;
    for part in [
        &format!("Run {run} of ada (team speech), validation, epoch 1: no progress for "),
        proof,
        "\nWitnesses: processes worked ",
        " ago; GPUs worked ",
        " ago; 4 of 4 GPUs idle.\n",
        "\nFirst: curl -s 127.0.0.1:",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert_eq!(text.contains(unseen), node.hang == Hang::Lock, "{text}");
    assert!(!node.saw_false_work(), "{text}");
    assert!(notice.annotations["runbook_url"].ends_with(&format!("/{alert}.md")));
    assert_eq!(fleet.verdict(run).as_deref(), Some(verdict));
    assert_eq!(node.view()["verdict"], verdict, "{}", node.view());
    let ceiling = |name: &str| node.metric(name, "").expect("a ceiling");
    let quiet = ceiling("training_quiet_ceiling_seconds");
    // Where nothing counts the validation, only the silence of its processes and GPUs is judged.
    let (what, allowed) = match node.hang {
        Hang::Lock => ("quiet", quiet),
        Hang::Read | Hang::Stop => (
            "progress",
            ceiling("training_progress_ceiling_seconds").max(quiet),
        ),
    };
    let took = notice.at - node.last_read();
    let real = FASTER as f64 * (took - allowed);
    format!(
        "{run}: {took:.1} s to {alert}, the {what} ceiling of {allowed:.1} s and {:.1} s more ({real:.0} s in real time)",
        took - allowed
    )
}

/// Nobody heard of anything else, and each by the receiver that it is for.
fn nothing_else(nodes: &[Node], webhook: &Webhook) {
    let mut wanted = BTreeSet::new();
    for node in nodes {
        wanted.insert((
            node.run.to_owned(),
            "TrainingValidationIdle".to_owned(),
            "nobody".to_owned(),
        ));
        wanted.insert((
            node.run.to_owned(),
            expected(node.hang).0.to_owned(),
            "pager".to_owned(),
        ));
    }
    let told = webhook.notices();
    let heard: BTreeSet<_> = told
        .iter()
        .map(|n| {
            (
                n.label("run").to_owned(),
                n.label("alertname").to_owned(),
                n.receiver.clone(),
            )
        })
        .collect();
    assert_eq!(heard, wanted);
}
