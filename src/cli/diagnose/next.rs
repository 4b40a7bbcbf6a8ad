//! What to run next, for this very case, with the right process ids. Commands are named, never run; one that would touch
//! the training says so. Their words are those of the runbooks.

use serde::Serialize;

use super::ask::RunSaid;
use super::looks::Sight;
use super::report::Outcome;
use crate::node::procfs::standing::Standing;
use crate::web::words::quoted;

/// So many processes are named for one command.
const MANY: usize = 8;

/// A command, and what it tells.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Next {
    /// For a shell on the run's node.
    pub(super) command: String,
    /// What it shows, or does.
    pub(super) why: String,
}

/// What to run next, the most telling first.
pub(super) fn next(outcome: Outcome, before: &Sight, after: &Sight, said: &RunSaid) -> Vec<Next> {
    let mut steps = Steps(Vec::new());
    let log = quoted(&said.log.path);
    let tail = || format!("tail -c 4000 {log} | tr '\\r' '\\n'");
    match outcome {
        Outcome::Healthy => return Vec::new(),
        Outcome::Over => {
            if said.verdict == "failed" || said.verdict == "vanished" {
                steps.add(tail(), "its last words");
                steps.add(
                    "sudo dmesg -T | grep -iE 'out of memory|oom-kill|killed process|xid' | tail",
                    "whether the kernel or the driver ended it",
                );
            }
            return steps.0;
        }
        Outcome::Nobody => {
            steps.add(tail(), "its last words");
            steps.add(
                format!("ls -l {log}"),
                "when it was last written, and by whose user",
            );
            return steps.0;
        }
        Outcome::Hung | Outcome::NotTold | Outcome::Suspended => {}
    }
    // Such a run has a first step only if its log is not understood.
    if let Some(step) = said
        .first_step
        .as_ref()
        .filter(|_| said.verdict == "not_judged")
    {
        steps.add(&*step.command, "what is read in its log, and what is not");
    }
    let all = &after.standing;
    let stands = |now: &Standing| before.same(now).is_some_and(|then| now.stands_since(then));
    steps.stopped(all.iter().filter(|one| one.stopped()));
    steps.blocked(
        all.iter()
            .filter(|one| one.writes_to.is_some() && stands(one)),
    );
    steps.stuck(all.iter().filter(|one| one.state == 'D'));
    let mut ranks: Vec<&Standing> = all
        .iter()
        .filter(|one| !one.worker && !one.stopped())
        .collect();
    ranks.sort_by_key(|one| (one.rank, one.pid));
    for one in ranks.iter().take(MANY) {
        let who = one
            .rank
            .map_or_else(|| "it".to_owned(), |rank| format!("rank {rank}"));
        let spins = before
            .same(one)
            .is_some_and(|then| one.cpu_seconds > then.cpu_seconds);
        let native = if spins { "--native " } else { "" };
        let pid = one.pid;
        steps.add(
            format!("sudo py-spy dump {native}--pid {pid}"),
            match spins {
                true => format!("where {who} computes; twice: a stack that changes is alive (stops it for a moment)"),
                false => format!("where {who} stands (stops it for a moment)"),
            },
        );
    }
    if ranks.len() > 1 {
        steps.add(
            "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1",
            "for the next start: the flight recorder tells which rank missed which collective",
        );
    }
    if let Some(rank) = ranks.first() {
        steps.add(
            format!("sudo timeout 10 strace -f -p {}", rank.pid),
            "its system calls, as a last resort (slows it while it runs)",
        );
    }
    if !said.gpus.is_empty() {
        steps.add(
            "timeout 20 nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory --format=csv",
            "who holds which GPU: the one that idles while others spin is the suspect",
        );
        steps.add(
            "sudo dmesg -T | grep -iE 'xid|nvrm' | tail",
            "errors of the driver",
        );
    }
    if after.hidden.is_some() && said.log.path.starts_with('/') {
        steps.add(
            format!("sudo training-exporter diagnose --log.path {log}"),
            "the same, with the permission to see its processes",
        );
    }
    steps.add(tail(), "its last words");
    steps.0
}

struct Steps(Vec<Next>);

impl Steps {
    fn add(&mut self, command: impl Into<String>, why: impl Into<String>) {
        self.0.push(Next {
            command: command.into(),
            why: why.into(),
        });
    }

    fn stopped<'a>(&mut self, stopped: impl Iterator<Item = &'a Standing>) {
        let pids = pids(stopped);
        if pids.is_empty() {
            return;
        }
        for pid in &pids {
            self.add(
                format!("grep -E '^(Name|State|TracerPid)' /proc/{pid}/status"),
                "who stopped it: TracerPid 0 is a signal, another number is that debugger",
            );
        }
        self.add(
            format!("kill -CONT {}", words(&pids)),
            "lets it go on, if nobody debugs it (yours to decide: nothing was sent)",
        );
    }

    fn blocked<'a>(&mut self, blocked: impl Iterator<Item = &'a Standing>) {
        let mut told = Vec::new();
        for one in blocked.take(MANY) {
            let Some(pipe) = one.writes_to.as_ref().filter(|pipe| !told.contains(pipe)) else {
                continue;
            };
            told.push(pipe);
            self.add(
                format!(
                    "sudo find /proc/[0-9]*/fd -maxdepth 1 -lname {} 2>/dev/null",
                    quoted(&pipe.replace('[', "\\[").replace(']', "\\]"))
                ),
                "who reads what it prints: that one is stopped, or waits itself",
            );
        }
    }

    fn stuck<'a>(&mut self, stuck: impl Iterator<Item = &'a Standing>) {
        let pids = pids(stuck);
        for pid in &pids {
            self.add(
                format!("sudo cat /proc/{pid}/stack"),
                "where in the kernel it sleeps: the file system or driver",
            );
        }
        if !pids.is_empty() {
            self.add(
                "sudo dmesg -T | grep -iE 'nfs|lustre|hung task|blocked for|i/o error|xid' | tail",
                "what storage and driver say",
            );
        }
    }
}

fn pids<'a>(of: impl Iterator<Item = &'a Standing>) -> Vec<u32> {
    of.take(MANY).map(|one| one.pid).collect()
}

fn words(pids: &[u32]) -> String {
    let words: Vec<String> = pids.iter().map(u32::to_string).collect();
    words.join(" ")
}
