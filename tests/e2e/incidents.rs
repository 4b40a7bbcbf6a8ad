//! Incidents: which alerts fire, step by step, and who hears of them. `alerts/tests/incidents.txt` lists them and tells its
//! own form; what is expected of a scenario takes the same form.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use training_exporter::scenario::spec::{Expected, FaultKind, Node, Scenario};

use super::rules::shipped;

pub(crate) type Labels = BTreeMap<String, String>;

/// What becomes of an incident at the on-call and in the channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Groups that were opened at the pager: somebody is woken.
    pub(crate) pages: usize,
    /// Further words to a group that is open: nobody is woken again.
    pub(crate) updates: usize,
    /// Messages in the channel.
    pub(crate) chat: usize,
}

/// One alert of an incident.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Alert {
    /// The steps at which it fires, from 1.
    pub(crate) steps: BTreeSet<usize>,
    pub(crate) labels: Labels,
    /// The receivers that hear of it, or `muted`, in their order.
    pub(crate) heard: String,
}

/// What happens together.
#[derive(Clone, Debug)]
pub(crate) struct Incident {
    pub(crate) title: String,
    pub(crate) count: Count,
    pub(crate) alerts: Vec<Alert>,
}

/// The incidents of `alerts/tests/incidents.txt`.
pub(crate) fn listed() -> Vec<Incident> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts/tests/incidents.txt");
    let text = fs::read_to_string(path).expect("incidents.txt");
    let mut found: Vec<Incident> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        if line.trim().is_empty() {
            continue;
        }
        let read = if line.starts_with(' ') {
            alert(line)
                .zip(found.last_mut())
                .map(|(alert, incident)| incident.alerts.push(alert))
        } else {
            incident(line).map(|incident| found.push(incident))
        };
        read.unwrap_or_else(|| panic!("incidents.txt:{}: {line}", number + 1));
    }
    found.iter_mut().for_each(Incident::complete);
    found
}

fn incident(line: &str) -> Option<Incident> {
    static HEAD: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(\d+) pages?(?: \+ (\d+))?, (\d+) chat: (.+)$").expect("a pattern")
    });
    let head = HEAD.captures(line)?;
    let number = |n| {
        head.get(n)
            .map_or(Some(0), |found| found.as_str().parse().ok())
    };
    let (pages, updates, chat) = (number(1)?, number(2)?, number(3)?);
    Some(Incident {
        title: head[4].to_owned(),
        count: Count {
            pages,
            updates,
            chat,
        },
        alerts: Vec::new(),
    })
}

fn alert(line: &str) -> Option<Alert> {
    let mut words = line.split_whitespace();
    let heard = words.next()?.to_owned();
    let (name, severity) = (words.next()?, words.next()?);
    let mut labels = Labels::from([("alertname", name), ("severity", severity)].map(owned));
    for word in words {
        labels.extend([owned(word.split_once('=')?)]);
    }
    let steps = labels.remove("steps");
    let steps = steps.map_or(Some(BTreeSet::new()), |steps| numbers(&steps))?;
    Some(Alert {
        steps,
        labels,
        heard,
    })
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Reads `1-3,5`.
fn numbers(text: &str) -> Option<BTreeSet<usize>> {
    let mut numbers = BTreeSet::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        numbers.extend(from.parse::<usize>().ok()?..=to.parse::<usize>().ok()?);
    }
    Some(numbers)
}

impl Incident {
    /// What is expected of a scenario, with each alert for as long as it may fire; a step is the time between two changes.
    /// Runs and nodes lose their names, so that the same happening is the same incident. Nothing, if nothing fires.
    pub(crate) fn of(title: &str, scenario: &Scenario) -> Option<Self> {
        let mut spans: Vec<(Labels, u64, u64)> = Vec::new();
        let rules = rules();
        for (name, expected) in &scenario.expect {
            for expected in expected {
                let end = scenario.duration.0;
                let until = expected
                    .until
                    .map_or(end, |until| end.min(until.0 + expected.slack.0));
                for labels in labels(&rules, name, expected, scenario) {
                    spans.push((labels, expected.from.0 as u64, until as u64));
                }
            }
        }
        let edges: BTreeSet<u64> = spans
            .iter()
            .flat_map(|&(_, from, until)| [from, until])
            .collect();
        let mut states: Vec<BTreeSet<&Labels>> = Vec::new();
        for time in edges {
            let fires = spans
                .iter()
                .filter(|(_, from, until)| (*from..*until).contains(&time));
            let state: BTreeSet<&Labels> = fires.map(|(labels, _, _)| labels).collect();
            if states.last() != Some(&state) {
                states.push(state);
            }
            // Again and again is twice.
            if let [.., a, b, c, d, e] = states.as_slice()
                && (a, b) == (c, d)
                && c == e
            {
                states.truncate(states.len() - 2);
            }
        }
        let mut steps: BTreeMap<&Labels, BTreeSet<usize>> = BTreeMap::new();
        for (step, state) in (1..).zip(&states) {
            for labels in state {
                steps.entry(labels).or_default().insert(step);
            }
        }
        let mut alerts: Vec<Alert> = steps
            .into_iter()
            .map(|(labels, steps)| Alert {
                steps,
                labels: labels.clone(),
                heard: String::new(),
            })
            .collect();
        nameless(
            &mut alerts,
            "run",
            &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"],
        );
        nameless(&mut alerts, "instance", &["n1", "n2", "n3", "n4"]);
        alerts.sort();
        (!alerts.is_empty()).then(|| Self {
            title: title.to_owned(),
            count: Count::default(),
            alerts,
        })
    }

    /// An alert without steps fires at all of them.
    fn complete(&mut self) {
        let last = self.last();
        for alert in &mut self.alerts {
            if alert.steps.is_empty() {
                alert.steps = (1..=last).collect();
            }
        }
        self.alerts.sort();
    }

    /// The same alerts fire at the same steps.
    pub(crate) fn fires_as(&self, other: &Self) -> bool {
        let fires = |incident: &Self| -> Vec<_> {
            let of_each = incident.alerts.iter();
            of_each
                .map(|alert| (alert.steps.clone(), alert.labels.clone()))
                .collect()
        };
        fires(self) == fires(other)
    }

    /// The number of its steps.
    pub(crate) fn last(&self) -> usize {
        self.alerts
            .iter()
            .flat_map(|alert| &alert.steps)
            .max()
            .map_or(1, |&last| last)
    }
}

/// Each alert's severity, and whether it is about a run; else about a node.
fn rules() -> BTreeMap<String, (String, bool)> {
    static ALERT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?s)- alert: (\w+)\n.*?severity: (\w+)").expect("a pattern"));
    let mut rules = BTreeMap::new();
    for path in shipped() {
        let of_run = path.ends_with("training.rules.yml");
        let text = fs::read_to_string(path).expect("a rule file");
        let alerts = ALERT.captures_iter(&text);
        rules.extend(alerts.map(|alert| (alert[1].to_owned(), (alert[2].to_owned(), of_run))));
    }
    rules
}

/// The labels of an expected alert: of its run, or of each; of each node where something is wrong.
fn labels(
    rules: &BTreeMap<String, (String, bool)>,
    name: &str,
    expected: &Expected,
    scenario: &Scenario,
) -> Vec<Labels> {
    let (severity, of_run) = &rules[name];
    let alone = Labels::from([("alertname", name), ("severity", severity)].map(owned));
    let with = |label: &str, value: &str| {
        let mut labels = alone.clone();
        labels.insert(label.to_owned(), value.to_owned());
        labels
    };
    if *of_run {
        let all = scenario
            .nodes
            .iter()
            .flat_map(|node| &node.runs)
            .map(|run| &run.run);
        let runs: BTreeSet<&String> = all
            .filter(|run| expected.run.as_ref().is_none_or(|of| of == *run))
            .collect();
        return runs.into_iter().map(|run| with("run", run)).collect();
    }
    // No exporter at all is an alert without a node.
    let gone = |node: &Node| {
        node.faults
            .iter()
            .any(|fault| fault.kind == FaultKind::TargetGone)
    };
    if scenario.nodes.iter().all(gone) {
        return vec![alone];
    }
    let lost = |node: &Node| {
        node.gpus
            .as_ref()
            .is_some_and(|gpus| gpus.spans.iter().any(|span| span.lost))
    };
    let wrong = scenario
        .nodes
        .iter()
        .filter(|node| !node.faults.is_empty() || lost(node));
    wrong.map(|node| with("instance", &node.name)).collect()
}

/// Gives the values of a label other names, by what happens to them.
fn nameless(alerts: &mut [Alert], label: &str, names: &[&str]) {
    let mut happens: BTreeMap<String, Vec<(BTreeSet<usize>, String)>> = BTreeMap::new();
    for alert in alerts.iter() {
        if let Some(value) = alert.labels.get(label) {
            let what = (alert.steps.clone(), alert.labels["alertname"].clone());
            happens.entry(value.clone()).or_default().push(what);
        }
    }
    let mut order: Vec<_> = happens
        .into_iter()
        .map(|(value, what)| (what, value))
        .collect();
    order.sort();
    let names: BTreeMap<String, &str> = order
        .into_iter()
        .map(|(_, value)| value)
        .zip(names.iter().copied())
        .collect();
    for alert in alerts {
        if let Some(value) = alert.labels.get_mut(label)
            && let Some(name) = names.get(value)
        {
            *value = (*name).to_owned();
        }
    }
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count {
            pages,
            updates,
            chat,
        } = self.count;
        let s = if pages == 1 { "" } else { "s" };
        let more = if updates > 0 {
            format!(" + {updates}")
        } else {
            String::new()
        };
        writeln!(f, "{pages} page{s}{more}, {chat} chat: {}", self.title)?;
        let last = self.last();
        for Alert {
            steps,
            labels,
            heard,
        } in &self.alerts
        {
            write!(
                f,
                "  {heard:<12} {:<29} {:<8}",
                labels["alertname"], labels["severity"]
            )?;
            for (name, value) in labels {
                if !["alertname", "severity"].contains(&name.as_str()) {
                    write!(f, " {name}={value}")?;
                }
            }
            if last > 1 {
                write!(f, " steps={}", spans(steps))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Writes `1-3,5`.
fn spans(steps: &BTreeSet<usize>) -> String {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for &step in steps {
        match spans.last_mut() {
            Some((_, to)) if *to + 1 == step => *to = step,
            _ => spans.push((step, step)),
        }
    }
    let words = spans.into_iter().map(|(from, to)| {
        if from == to {
            format!("{from}")
        } else {
            format!("{from}-{to}")
        }
    });
    words.collect::<Vec<_>>().join(",")
}
