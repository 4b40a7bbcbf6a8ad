//! The page: every family of one snapshot, and the rows of runs, logs, sources and the exporter itself.

use prometheus::proto::MetricFamily;

use super::{Exporter, Log, Run, Source, State};
use crate::job::{self, Unix};
use crate::metric::{Entry, Metric, counter, families, gauge, gauges, reference};
use crate::node::{gpu, process};

impl State {
    /// Every family of the page, at `now`.
    pub fn families(&mut self, now: Unix) -> Vec<MetricFamily> {
        self.check_stall(now);
        self.exporter.now = now;
        self.exporter.runs = self.runs.len();
        let runs = || self.runs.values().map(|run| (vec![run.name.clone()], run));
        let gpus = self.gpus.data.as_deref().unwrap_or_default();
        let gpus: Vec<_> = gpus
            .iter()
            .map(|gpu| (vec![gpu.index.to_string(), gpu.uuid.clone()], gpu))
            .collect();
        let jobs: Vec<_> = runs().map(|(labels, run)| (labels, &run.job)).collect();
        let logs: Vec<_> = runs().map(|(labels, run)| (labels, &run.log)).collect();
        let seen: Vec<_> = runs()
            .filter_map(|(labels, run)| Some((labels, run.processes.as_ref()?)))
            .collect();
        let sources: Vec<_> = self
            .sources
            .iter()
            .map(|(name, source)| (vec![(*name).to_owned()], source))
            .collect();
        [
            families(RUN, RUN_LABELS, &runs().collect::<Vec<_>>()),
            families(job::metrics::METRICS, RUN_LABELS, &jobs),
            families(process::METRICS, RUN_LABELS, &seen),
            families(LOG, RUN_LABELS, &logs),
            families(gpu::METRICS, gpu::LABELS, &gpus),
            families(SOURCE, SOURCE_LABELS, &sources),
            families(NODE, &[], &[(Vec::new(), self)]),
            families(EXPORTER, &[], &[(Vec::new(), &self.exporter)]),
        ]
        .concat()
    }
}

/// Every metric that can be on the page, for the reference.
pub fn all_metrics() -> Vec<Entry> {
    [
        reference(RUN, RUN_LABELS),
        reference(job::metrics::METRICS, RUN_LABELS),
        reference(process::METRICS, RUN_LABELS),
        reference(LOG, RUN_LABELS),
        reference(gpu::METRICS, gpu::LABELS),
        reference(NODE, &[]),
        reference(SOURCE, SOURCE_LABELS),
        reference(EXPORTER, &[]),
    ]
    .concat()
}

const RUN_LABELS: &[&str] = &["run"];
const SOURCE_LABELS: &[&str] = &["source"];

const RUN: &[Metric<Run>] = &[
    gauges(
        "training_run_info",
        "Who and what a run is; always 1. Labels are empty where unknown.",
        &[
            "framework",
            "user",
            "team",
            "slurm_job_id",
            "kubernetes_namespace",
            "kubernetes_pod",
            "log_path",
        ],
        |run, out| {
            let i = &run.info;
            out.add(
                [
                    &i.framework,
                    &i.user,
                    &i.team,
                    &i.slurm_job_id,
                    &i.kubernetes_namespace,
                    &i.kubernetes_pod,
                    &i.log_path,
                ],
                1.0,
            );
        },
    ),
    gauge(
        "training_run_enrolled",
        "1 once a phase or two different steps were seen in its log, and some sign of life since the exporter started. Whether it can be judged the verdict tells: not while its phase is unknown.",
        |run| Some(f64::from(u8::from(run.enrolled()))),
    ),
    gauge(
        "training_run_nodes",
        "How many nodes the run should have. Absent where it is not configured.",
        |run| run.info.nodes.map(|nodes| nodes as f64),
    ),
    gauges(
        "training_run_alerting",
        "1 with how loudly the run's alerts speak: off, warn or page. Absent where it is not configured; the rules then page.",
        &["level"],
        |run, out| {
            run.info
                .alerting
                .iter()
                .for_each(|level| out.add([level.name()], 1.0))
        },
    ),
    gauges(
        "training_run_gpu",
        "1 for each GPU on which a process of the run holds a context: the many side of every join.",
        gpu::LABELS,
        |run, out| {
            run.gpus
                .iter()
                .for_each(|(index, uuid)| out.add([&index.to_string(), uuid], 1.0))
        },
    ),
    counter(
        "training_val_files_opened_total",
        "Distinct validation files opened, counted anew in each pass and summed. Absent where no folder is watched.",
        |run| run.files_opened.map(|n| n as f64),
    ),
];

const LOG: &[Metric<Log>] = &[
    gauge(
        "training_log_up",
        "1 if the run's log is open and can be read.",
        |log| Some(f64::from(u8::from(log.up && !log.stalled))),
    ),
    gauge(
        "training_log_lag_bytes",
        "Bytes in the log that are not read yet.",
        |log| Some(log.lag as f64),
    ),
    counter(
        "training_log_bytes_total",
        "Bytes read from the log.",
        |log| (!log.partial).then_some(log.bytes as f64),
    ),
    counter(
        "training_log_lines_total",
        "Lines read from the log, each frame of a bar as one.",
        |log| (!log.partial).then_some(log.lines as f64),
    ),
    counter(
        "training_log_lines_matched_total",
        "Lines of the log that said something, be it only a number.",
        |log| (!log.partial).then_some(log.matched as f64),
    ),
    counter(
        "training_log_rotations_total",
        "Rotations and truncations of the log that were followed.",
        |log| (!log.partial).then_some(log.rotations as f64),
    ),
    gauge(
        "training_log_polled",
        "1 if no event tells what is written to the log: it is on a far file system, or has no watch, and is looked at every second. Absent before that can be told.",
        |log| {
            let polled = log.polled.is_some();
            (polled || log.watched).then_some(f64::from(u8::from(polled)))
        },
    ),
    gauge(
        "training_log_block_buffered",
        "1 if the log comes in blocks, minutes apart: the training's stdout is buffered. Absent before that can be told.",
        |log| log.blocks.buffered().map(|yes| f64::from(u8::from(yes))),
    ),
    gauge(
        "training_log_last_write_timestamp_seconds",
        "Unix time at which the log was last written, by its file system.",
        |log| log.last_write,
    ),
];

const NODE: &[Metric<State>] = &[
    gauge(
        "training_nvml_up",
        "1 if the GPUs could be read in the newest look, 0 if not: then no GPU series is exported.",
        |state| Some(f64::from(u8::from(state.gpus.data.is_some()))),
    ),
    gauge(
        "training_nvml_blocked_seconds",
        "For how long the GPU driver has not answered; 0 while it does. Absent where nobody asks it.",
        |state| state.nvml_blocked,
    ),
];

const SOURCE: &[Metric<Source>] = &[
    gauge(
        "training_exporter_source_success",
        "1 if the newest reading of this source gave data.",
        |source| Some(f64::from(u8::from(source.success))),
    ),
    gauge(
        "training_exporter_source_duration_seconds",
        "How long the newest reading of this source took.",
        |source| Some(source.duration),
    ),
    gauge(
        "training_exporter_source_last_success_timestamp_seconds",
        "Unix time at which a reading of this source last gave data.",
        |source| source.last_success,
    ),
];

const EXPORTER: &[Metric<Exporter>] = &[
    gauges(
        "training_exporter_build_info",
        "The exporter's version; always 1.",
        &["version"],
        |_, out| out.add([env!("CARGO_PKG_VERSION")], 1.0),
    ),
    gauge(
        "training_exporter_clock_timestamp_seconds",
        "Now, by this node's clock: rules subtract its skew from all other times of this node.",
        |exporter| Some(exporter.now),
    ),
    gauge(
        "training_exporter_config_last_reload_successful",
        "1 if the newest configuration is in force.",
        |exporter| Some(f64::from(u8::from(exporter.config_error.is_none()))),
    ),
    gauge(
        "training_exporter_runs",
        "Runs that are exported.",
        |exporter| Some(exporter.runs as f64),
    ),
    gauge(
        "training_exporter_runs_limit",
        "The most runs that are exported.",
        |exporter| Some(exporter.runs_limit as f64),
    ),
    counter(
        "training_exporter_runs_dropped_total",
        "Logs that made no run because of that limit.",
        |exporter| Some(exporter.runs_dropped as f64),
    ),
    counter(
        "training_exporter_watch_errors_total",
        "Errors of the file watch; a file without a watch is looked at every second.",
        |exporter| Some(exporter.watch_errors as f64),
    ),
];
