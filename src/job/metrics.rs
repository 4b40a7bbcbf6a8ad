//! The rows of a run: what `/metrics` says about a `Job`.

use super::asked::Source;
use super::observation::{Ended, Fault};
use super::{Job, Phase};
use crate::metric::{Metric, counter, counters, gauge, gauges, summary};

/// All rows; each series carries the label `run`.
pub const METRICS: &[Metric<Job>] = &[
    gauges(
        "training_phase",
        "1 for the phase that the run is in, 0 for the others; exactly one is 1.",
        &["phase"],
        |job, out| out.one_of(Phase::ALL.map(Phase::name), job.phase.name()),
    ),
    gauge(
        "training_phase_start_timestamp_seconds",
        "Unix time at which the current phase began. Absent before the first phase.",
        |job| job.phase_since,
    ),
    counters(
        "training_phase_seconds_total",
        "Seconds spent in each phase since the exporter has known the run.",
        &["phase"],
        |job, out| {
            for phase in Phase::ALL {
                out.add([phase.name()], job.phase_seconds[phase as usize]);
            }
        },
    ),
    gauge(
        "training_run_start_timestamp_seconds",
        "Unix time at which the run began, as far as the exporter knows.",
        |job| job.started,
    ),
    gauge(
        "training_run_end_timestamp_seconds",
        "Unix time at which the run was over. Absent while it lives.",
        |job| job.ended.map(|(_, at)| at),
    ),
    gauges(
        "training_run_ended",
        "1 with the reason why the run is over. Absent while it lives.",
        &["reason"],
        |job, out| {
            if let Some((reason, _)) = job.ended {
                out.add([Ended::name(reason)], 1.0);
            }
        },
    ),
    gauge(
        "training_epoch",
        "Epoch under way, 1-based whatever the framework prints. Absent until the log tells.",
        |job| job.epoch.map(|n| n as f64),
    ),
    gauge(
        "training_epochs_planned",
        "Planned epochs. Absent until the log tells.",
        |job| job.epochs.map(|n| n as f64),
    ),
    gauge(
        "training_step",
        "Optimiser steps done; falls when a run resumes from a checkpoint. Absent until the log tells.",
        |job| job.step.map(|step| step.done as f64),
    ),
    gauge(
        "training_steps_planned",
        "Planned optimiser steps. Absent until the log tells.",
        |job| job.step.and_then(|step| step.of).map(|n| n as f64),
    ),
    gauge(
        "training_val_progress_ratio",
        "Share of the running validation that is done, 0 to 1. Absent outside a validation and while the total is unknown.",
        |job| {
            job.validation_progress()
                .and_then(|progress| progress.ratio())
        },
    ),
    gauge(
        "training_val_done",
        "Units of the running validation that are done: batches by the log, or distinct files (see training_val_source).",
        |job| {
            job.validation_progress()
                .map(|progress| progress.done as f64)
        },
    ),
    gauge(
        "training_val_planned",
        "Units of the whole running validation, in the unit of training_val_done.",
        |job| {
            job.validation_progress()
                .and_then(|progress| progress.of)
                .map(|of| of as f64)
        },
    ),
    gauges(
        "training_val_source",
        "1 for where the numbers of the running validation come from now, 0 for the others. Absent outside a validation.",
        &["source"],
        |job, out| {
            if let Some(source) = job.source() {
                out.one_of(
                    [Source::Log, Source::Files, Source::Nothing].map(Source::name),
                    source.name(),
                );
            }
        },
    ),
    gauges(
        "training_value",
        "Other numbers of the log, under the names that the preset gives them; at most 32 for each run.",
        &["name"],
        |job, out| {
            job.values
                .iter()
                .for_each(|(name, &value)| out.add([name], value))
        },
    ),
    gauge(
        "training_last_progress_timestamp_seconds",
        "Unix time at which a number of the run last reached a new highest value, or its phase changed.",
        Job::last_progress,
    ),
    gauge(
        "training_progress_ceiling_seconds",
        "How long the run may go without progress in this phase: learned from its own gaps, before that a start value. Absent when it is over.",
        Job::progress_ceiling,
    ),
    gauge(
        "training_last_work_timestamp_seconds",
        "Unix time at which a process of the run last did work that proves life. Absent until such work was seen in this phase.",
        Job::last_work,
    ),
    gauge(
        "training_last_gpu_work_timestamp_seconds",
        "Unix time at which a GPU of the run last drew what it draws while the run advances.",
        Job::last_gpu_work,
    ),
    gauge(
        "training_quiet_ceiling_seconds",
        "How long all processes and GPUs of the run may be without work: learned, before that a start value. Absent when it is over.",
        Job::quiet_ceiling,
    ),
    gauge(
        "training_endurance_seconds",
        "How long the run may stand still in this phase where nothing proves a hang: six ceilings in training, elsewhere three times the longest earlier phase of its kind, before that a start value. Absent when it is over.",
        Job::endurance,
    ),
    gauge(
        "training_last_checkpoint_timestamp_seconds",
        "Unix time at which a checkpoint was last complete. Absent before the first one.",
        Job::last_checkpoint,
    ),
    gauge(
        "training_checkpoint_ceiling_seconds",
        "How long the run may go without a complete checkpoint: three times its usual gap. Absent until that is learned.",
        Job::checkpoint_ceiling,
    ),
    counter(
        "training_recompile_count_total",
        "Recompilations by torch Dynamo that the log tells of, of the rank that has most; a limit warning alone gives a lower bound.",
        |job| (!job.partial).then_some(job.recompiles().0 as f64),
    ),
    counter(
        "training_recompile_limit_hits_total",
        "Frames that torch Dynamo gave up on (config.recompile_limit), of the rank that has most.",
        |job| (!job.partial).then_some(job.recompiles().1 as f64),
    ),
    counters(
        "training_faults_total",
        "Lines of the log that tell of a fault, by kind. A fault alone does not end a run.",
        &["kind"],
        |job, out| {
            for fault in Fault::ALL.into_iter().filter(|_| !job.partial) {
                out.add(
                    [fault.name()],
                    job.faults.get(&fault).copied().unwrap_or(0) as f64,
                );
            }
        },
    ),
    counter(
        "training_nonfinite_loss_total",
        "Losses in the log that are NaN or infinite.",
        |job| (!job.partial).then_some(job.nonfinite as f64),
    ),
    summary(
        "training_validation_duration_seconds",
        "Finished validations: how many, and how long they took together.",
        |job| (!job.partial).then_some(job.validations),
    ),
    summary(
        "training_checkpoint_duration_seconds",
        "Finished checkpoints: how many, and how long they took together.",
        |job| (!job.partial).then_some(job.checkpoints),
    ),
    summary(
        "training_epoch_duration_seconds",
        "Finished epochs: how many, and how long they took together.",
        |job| (!job.partial).then_some(job.epochs_done),
    ),
    gauge(
        "training_nccl_timeout_seconds",
        "After so many seconds NCCL ends a waiting collective. Absent until the log tells.",
        |job| job.collective_timeout,
    ),
];
