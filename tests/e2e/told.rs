//! Who hears of what: every incident is played to a live Alertmanager with the example's routes and inhibition, all of them
//! at once and each in a `cluster` of its own, so that none can mute another's alerts.
//!
//! Each step is held until Alertmanager has had to tell it, however short it was in the scenario: what is counted is the
//! most that a person can hear.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use training_exporter::cli::simulate::files;
use training_exporter::scenario::spec::Scenario;

use super::fleet::alertmanager_at;
use super::incidents::{Count, Incident, Labels, listed};
use super::programs::wait;
use super::support::ask;
use super::webhook::{Notice, Webhook, texts};
use super::{PATIENCE, alone};

/// So many times shorter than in the example are its waits: groups wait for 100 and 200 ms, and for 2 s between two words.
const TIMES: u64 = 150;
/// Longer than a group's silence between two words.
const HELD: Duration = Duration::from_millis(2_500);

/// What Alertmanager makes of one alert at one step: its receiver, or `muted`.
type Fate = BTreeMap<(usize, Labels), String>;

/// What is expected of scenarios and is not listed, and the titles of those that should be: the repository's.
/// `SCENARIO_DIR` may have others.
fn strange(listed: &[Incident]) -> (Vec<Incident>, Vec<String>) {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut folders = vec![ours.clone()];
    folders.extend(std::env::var_os("SCENARIO_DIR").map(PathBuf::from));
    let (mut strange, mut unlisted) = (Vec::new(), Vec::new());
    for file in files(&folders).expect("folders of scenarios") {
        let title = file
            .strip_prefix(&ours)
            .unwrap_or(&file)
            .display()
            .to_string();
        let text = fs::read_to_string(&file).expect("a scenario");
        let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{title}: {e}"));
        let Some(incident) = Incident::of(&title, &scenario) else {
            continue;
        };
        if listed
            .iter()
            .chain(&strange)
            .any(|other| other.fires_as(&incident))
        {
            continue;
        }
        if file.starts_with(&ours) {
            unlisted.push(title);
        }
        strange.push(incident);
    }
    (strange, unlisted)
}

#[test]
fn one_incident_is_one_page() {
    let _alone = alone();
    let listed = listed();
    let mut incidents = listed.clone();
    let (strange, unlisted) = strange(&listed);
    incidents.extend(strange);
    let folder = tempfile::tempdir().expect("a folder");
    let webhook = Webhook::start();
    let (_running, alertmanager) = alertmanager_at(folder.path(), webhook.address, TIMES);

    let mut fates = Vec::new();
    let last = incidents
        .iter()
        .map(Incident::last)
        .max()
        .expect("incidents");
    // After the last step nothing fires any more, and that is told as well.
    for step in 1..=last + 1 {
        post(&incidents, step, alertmanager);
        thread::sleep(HELD);
        fates.push(settled(&incidents, step, alertmanager, &webhook));
    }
    let mut wrong = Vec::new();
    for (number, incident) in incidents.iter().enumerate() {
        let told = told(incident, number, &fates, &webhook.notices());
        wrong.extend(promises(&told, number, &fates, &webhook.notices()));
        if number >= listed.len() {
            if unlisted.contains(&incident.title) {
                wrong.push(format!("incidents.txt lacks\n{told}"));
            }
        } else if (told.count, &told.alerts) != (incident.count, &incident.alerts) {
            wrong.push(format!("is listed as\n{incident}but is told as\n{told}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The labels that Alertmanager knows an alert by.
fn labels(number: usize, labels: &Labels) -> Labels {
    let mut labels = labels.clone();
    labels.insert("cluster".to_owned(), number.to_string());
    labels
}

/// Tells Alertmanager what fires at a step, and what fires no more.
fn post(incidents: &[Incident], step: usize, alertmanager: SocketAddr) {
    let mut changes = Vec::new();
    for (number, incident) in incidents.iter().enumerate() {
        for alert in &incident.alerts {
            let labels = labels(number, &alert.labels);
            if alert.steps.contains(&step) {
                changes.push(json!({"labels": labels}));
            } else if alert.steps.contains(&(step - 1)) {
                changes.push(json!({"labels": labels, "endsAt": "2000-01-01T00:00:00Z"}));
            }
        }
    }
    let body = Value::from(changes).to_string();
    let (status, answer) = ask(alertmanager, "POST", "/api/v2/alerts", &body).expect("an answer");
    assert_eq!(status, 200, "{answer}");
}

/// What became of each alert of a step, once everybody has been told who has to be.
fn settled(
    incidents: &[Incident],
    step: usize,
    alertmanager: SocketAddr,
    webhook: &Webhook,
) -> Fate {
    let firing = |incident: &&Incident| {
        incident
            .alerts
            .iter()
            .filter(|alert| alert.steps.contains(&step))
            .count()
    };
    let many: usize = incidents.iter().map(|incident| firing(&incident)).sum();
    let mut fate = Fate::new();
    let fates = || {
        let (_, answer) = ask(alertmanager, "GET", "/api/v2/alerts", "").ok()?;
        let answer: Value = serde_json::from_str(&answer).ok()?;
        let fate: Fate = answer.as_array()?.iter().filter_map(one).collect();
        let notices = webhook.notices();
        let is_told = |((number, alert), receiver): (&(usize, Labels), &String)| {
            let alert = labels(*number, alert);
            let newest = notices
                .iter()
                .rev()
                .find(|notice| notice.receiver == *receiver && notice.labels == alert);
            receiver == "muted" || newest.is_some_and(|notice| notice.firing)
        };
        (fate.len() == many && fate.iter().all(is_told)).then_some(fate)
    };
    fate.extend(wait(PATIENCE, fates, || {
        format!("all that is told at step {step}")
    }));
    fate
}

/// One alert as Alertmanager lists it.
fn one(alert: &Value) -> Option<((usize, Labels), String)> {
    let mut labels = texts(&alert["labels"]);
    let number = labels.remove("cluster")?.parse().ok()?;
    let muted = alert["status"]["state"] == "suppressed";
    let receiver = if muted {
        "muted"
    } else {
        alert["receivers"][0]["name"].as_str()?
    };
    Some(((number, labels), receiver.to_owned()))
}

/// The notifications of an incident to a receiver, in their order: whose group, and what they say.
fn notifications<'a>(number: usize, receiver: &str, notices: &'a [Notice]) -> Vec<Vec<&'a Notice>> {
    let mut found: Vec<Vec<&Notice>> = Vec::new();
    for notice in notices {
        if notice.receiver != receiver || notice.label("cluster") != number.to_string() {
            continue;
        }
        match found.last_mut() {
            Some(same) if (same[0].at, &same[0].group) == (notice.at, &notice.group) => {
                same.push(notice)
            }
            _ => found.push(vec![notice]),
        }
    }
    found
}

/// The same incident as it was told.
fn told(incident: &Incident, number: usize, fates: &[Fate], notices: &[Notice]) -> Incident {
    let mut told = incident.clone();
    for alert in &mut told.alerts {
        let at = |step: &usize| fates[step - 1][&(number, alert.labels.clone())].as_str();
        let mut heard: Vec<&str> = alert.steps.iter().map(at).collect();
        heard.dedup();
        alert.heard = heard.join(">");
    }
    let fires = |notification: &&Vec<&Notice>| notification.iter().any(|notice| notice.firing);
    let pages = notifications(number, "pager", notices);
    let opened = openings(&pages).len();
    told.count = Count {
        pages: opened,
        updates: pages.iter().filter(fires).count() - opened,
        chat: notifications(number, "chat", notices)
            .iter()
            .filter(fires)
            .count(),
    };
    told
}

/// The notifications that open a group: a pager wakes somebody for these, and adds the others to what is open.
fn openings<'a, 'b>(pages: &'b [Vec<&'a Notice>]) -> Vec<&'b Vec<&'a Notice>> {
    let mut open = BTreeSet::new();
    let mut openings = Vec::new();
    for page in pages {
        let group = &page[0].group;
        if !page.iter().any(|notice| notice.firing) {
            open.remove(group);
        } else if open.insert(group) {
            openings.push(page);
        }
    }
    openings
}

/// What holds for every incident, also for one that nobody has listed.
fn promises(told: &Incident, number: usize, fates: &[Fate], notices: &[Notice]) -> Vec<String> {
    let mut broken = Vec::new();
    let mut breaks = |what: String| broken.push(format!("{what}:\n{told}"));
    let critical = |labels: &Labels| labels["severity"] == "critical";
    let pages = notifications(number, "pager", notices);
    if !told.alerts.iter().any(|alert| critical(&alert.labels)) && !pages.is_empty() {
        breaks("it wakes somebody for nothing".to_owned());
    }
    // Of each run whatever is critical is one incident, until there is a time without it.
    let mut steps: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for alert in told.alerts.iter().filter(|alert| critical(&alert.labels)) {
        if let Some(run) = alert.labels.get("run") {
            steps.entry(run).or_default().extend(&alert.steps);
        }
    }
    for (run, steps) in steps {
        let begins = steps
            .iter()
            .filter(|step| !steps.contains(&(*step - 1)))
            .count();
        let opened = openings(&pages)
            .into_iter()
            .filter(|page| {
                page.iter()
                    .any(|notice| notice.firing && notice.label("run") == run)
            })
            .count();
        if opened != begins {
            breaks(format!("run {run}: {opened} pages of {begins} incidents"));
        }
        for step in steps {
            let mut of_run = fates[step - 1].iter().filter(|((of, labels), _)| {
                *of == number && critical(labels) && labels.get("run").is_some_and(|of| of == run)
            });
            if !of_run.any(|(_, heard)| heard != "muted") {
                breaks(format!(
                    "run {run}: all that is critical is muted at step {step}"
                ));
            }
        }
    }
    let ended: BTreeMap<&str, bool> = pages
        .iter()
        .map(|page| {
            (
                page[0].group.as_str(),
                page.iter().any(|notice| notice.firing),
            )
        })
        .collect();
    if let Some((group, _)) = ended.iter().find(|(_, open)| **open) {
        breaks(format!("{group} is never said to be over"));
    }
    broken
}
