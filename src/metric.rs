//! One metric = one row: its whole name, its help, its type and how its value is read stand once, beside what it
//! measures. This file turns rows and the things they measure into `prometheus` families, at the scrape.
//!
//! A row that reads `None`, or adds no sample, leaves no series: unknown is absent, never 0 and never NaN.
//! It does not know what is measured, keeps no value, and reads no clock.

use prometheus::proto::{self, LabelPair, MetricFamily, MetricType};

/// The metric types that we export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that goes up and down.
    Gauge,
    /// A value that only rises, until the thing it counts starts anew.
    Counter,
    /// Count and sum of finished events, without quantiles.
    Summary,
}

impl Kind {
    /// The word that the text format uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Summary => "summary",
        }
    }
}

/// Count and sum of finished events: the value of a summary.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Total {
    /// Events that ended.
    pub count: u64,
    /// Sum over them, in the unit of the metric's name.
    pub sum: f64,
}

impl Total {
    /// Adds one finished event.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
    }
}

/// Collects the samples of a row that has labels of its own.
#[derive(Debug, Default)]
pub struct Samples(Vec<(Vec<String>, f64)>);

impl Samples {
    /// Adds one sample; `labels` are the values for the row's label names, in their order.
    pub fn add<const N: usize>(&mut self, labels: [&str; N], value: f64) {
        self.0.push((labels.map(str::to_owned).to_vec(), value));
    }

    /// Adds a sample for each state of a closed set: 1 for the one that holds, 0 for the others.
    pub fn one_of(&mut self, all: impl IntoIterator<Item = &'static str>, now: &str) {
        for state in all {
            self.add([state], f64::from(u8::from(state == now)));
        }
    }
}

enum Read<T: 'static> {
    One(fn(&T) -> Option<f64>),
    Each(&'static [&'static str], fn(&T, &mut Samples)),
    Sum(fn(&T) -> Option<Total>),
}

/// One row: everything that is said about one metric of a `T`.
pub struct Metric<T: 'static> {
    /// The whole name, so that searching for it finds this row.
    pub name: &'static str,
    /// The HELP text: meaning, unit, when it is absent.
    pub help: &'static str,
    /// The TYPE.
    pub kind: Kind,
    read: Read<T>,
}

impl<T> Metric<T> {
    /// The labels of this row, beyond those of the thing it measures.
    pub const fn labels(&self) -> &'static [&'static str] {
        match self.read {
            Read::Each(labels, _) => labels,
            Read::One(_) | Read::Sum(_) => &[],
        }
    }
}

/// A gauge with at most one series for each thing.
pub const fn gauge<T>(
    name: &'static str,
    help: &'static str,
    read: fn(&T) -> Option<f64>,
) -> Metric<T> {
    Metric {
        name,
        help,
        kind: Kind::Gauge,
        read: Read::One(read),
    }
}

/// A counter with at most one series for each thing.
pub const fn counter<T>(
    name: &'static str,
    help: &'static str,
    read: fn(&T) -> Option<f64>,
) -> Metric<T> {
    Metric {
        name,
        help,
        kind: Kind::Counter,
        read: Read::One(read),
    }
}

/// A gauge with labels of its own.
pub const fn gauges<T>(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    read: fn(&T, &mut Samples),
) -> Metric<T> {
    Metric {
        name,
        help,
        kind: Kind::Gauge,
        read: Read::Each(labels, read),
    }
}

/// A counter with labels of its own.
pub const fn counters<T>(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    read: fn(&T, &mut Samples),
) -> Metric<T> {
    Metric {
        name,
        help,
        kind: Kind::Counter,
        read: Read::Each(labels, read),
    }
}

/// A summary without quantiles.
pub const fn summary<T>(
    name: &'static str,
    help: &'static str,
    read: fn(&T) -> Option<Total>,
) -> Metric<T> {
    Metric {
        name,
        help,
        kind: Kind::Summary,
        read: Read::Sum(read),
    }
}

/// The families of `rows` over `subjects`, each given with the values of its own labels (`names`, in their order).
pub fn families<T>(
    rows: &'static [Metric<T>],
    names: &[&str],
    subjects: &[(Vec<String>, &T)],
) -> Vec<MetricFamily> {
    rows.iter()
        .map(|row| family(row, names, subjects))
        .filter(|f| !f.get_metric().is_empty())
        .collect()
}

fn family<T>(row: &Metric<T>, names: &[&str], subjects: &[(Vec<String>, &T)]) -> MetricFamily {
    let mut metrics = Vec::new();
    for (values, subject) in subjects {
        let own: Vec<LabelPair> = names.iter().zip(values).map(|(n, v)| pair(n, v)).collect();
        match row.read {
            Read::One(read) => metrics.extend(read(subject).map(|v| sample(row.kind, own, v))),
            Read::Each(labels, read) => {
                let mut samples = Samples::default();
                read(subject, &mut samples);
                metrics.extend(samples.0.into_iter().map(|(row_values, value)| {
                    let mut all = own.clone();
                    all.extend(labels.iter().zip(&row_values).map(|(n, v)| pair(n, v)));
                    sample(row.kind, all, value)
                }));
            }
            Read::Sum(read) => metrics.extend(read(subject).map(|total| {
                let mut summary = proto::Summary::default();
                summary.set_sample_count(total.count);
                summary.set_sample_sum(total.sum);
                let mut metric = proto::Metric::from_label(own);
                metric.set_summary(summary);
                metric
            })),
        }
    }
    let mut family = MetricFamily::default();
    family.set_name(row.name.to_owned());
    family.set_help(row.help.to_owned());
    family.set_field_type(match row.kind {
        Kind::Gauge => MetricType::GAUGE,
        Kind::Counter => MetricType::COUNTER,
        Kind::Summary => MetricType::SUMMARY,
    });
    family.set_metric(metrics);
    family
}

fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

fn sample(kind: Kind, labels: Vec<LabelPair>, value: f64) -> proto::Metric {
    let mut metric = proto::Metric::from_label(labels);
    if kind == Kind::Counter {
        let mut counter = proto::Counter::default();
        counter.set_value(value);
        metric.set_counter(counter);
    } else {
        let mut gauge = proto::Gauge::default();
        gauge.set_value(value);
        metric.set_gauge(gauge);
    }
    metric
}

/// One row of the metric reference: what a reader needs to know about a metric.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The whole name.
    pub name: &'static str,
    /// The word for its type.
    pub kind: &'static str,
    /// All labels, those of the measured thing first.
    pub labels: Vec<&'static str>,
    /// The HELP text.
    pub help: &'static str,
}

/// The reference entries of `rows`, whose things carry the labels `names`.
pub fn reference<T>(rows: &'static [Metric<T>], names: &[&'static str]) -> Vec<Entry> {
    rows.iter()
        .map(|row| Entry {
            name: row.name,
            kind: row.kind.name(),
            labels: names.iter().chain(row.labels()).copied().collect(),
            help: row.help,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::TextEncoder;

    struct Dog {
        legs: Option<f64>,
        mood: &'static str,
    }

    const ROWS: &[Metric<Dog>] = &[
        gauge("dog_legs", "Legs.", |d| d.legs),
        gauges("dog_mood", "Mood.", &["mood"], |d, out| {
            out.one_of(["calm", "wild"], d.mood)
        }),
        summary("dog_walk_seconds", "Walks.", |_| {
            Some(Total { count: 2, sum: 1.5 })
        }),
    ];

    #[test]
    fn absent_values_leave_no_series_and_labels_are_escaped() {
        let (a, b) = (
            Dog {
                legs: Some(4.0),
                mood: "calm",
            },
            Dog {
                legs: None,
                mood: "wild",
            },
        );
        let page = TextEncoder::new()
            .encode_to_string(&families(
                ROWS,
                &["name"],
                &[(vec!["a\"\n".into()], &a), (vec!["b".into()], &b)],
            ))
            .expect("plain rows encode");
        assert_eq!(
            page,
            "# HELP dog_legs Legs.\n# TYPE dog_legs gauge\ndog_legs{name=\"a\\\"\\n\"} 4\n\
             # HELP dog_mood Mood.\n# TYPE dog_mood gauge\n\
             dog_mood{name=\"a\\\"\\n\",mood=\"calm\"} 1\ndog_mood{name=\"a\\\"\\n\",mood=\"wild\"} 0\n\
             dog_mood{name=\"b\",mood=\"calm\"} 0\ndog_mood{name=\"b\",mood=\"wild\"} 1\n\
             # HELP dog_walk_seconds Walks.\n# TYPE dog_walk_seconds summary\n\
             dog_walk_seconds_sum{name=\"a\\\"\\n\"} 1.5\ndog_walk_seconds_count{name=\"a\\\"\\n\"} 2\n\
             dog_walk_seconds_sum{name=\"b\"} 1.5\ndog_walk_seconds_count{name=\"b\"} 2\n"
        );
    }
}
