#!/bin/sh
# Prolog of Slurm: shows the exporter the log of a batch job, by a link in a folder that it follows. No run needs to be
# configured: the job's run is called JOB@NODE.
#
#   slurm.conf    Prolog=/usr/share/training-exporter/slurm/prolog.sh
#                 PrologFlags=Alloc
#   config.yaml   logs: [{path: '/run/training-exporter/slurm/*.log'}]
#
# A prolog that fails drains the node. This one always succeeds, needs no PATH, asks no Slurm command, and never touches
# the log itself: that may be on a file system that does not answer.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
folder=${TRAINING_EXPORTER_SLURM:-/run/training-exporter/slurm}

# The node where the batch script runs, and so the one that writes the log: the first of `gpu[03-05,09],login1`.
first_node() {
    case $1 in
    *,*\[* | *\[*) ;;
    *) echo "${1%%,*}" && return ;;
    esac
    before=${1%%\[*}
    case $before in
    *,*) echo "${before%%,*}" ;;
    *)
        numbers=${1#*\[}
        numbers=${numbers%%\]*}
        numbers=${numbers%%,*}
        echo "$before${numbers%%-*}"
        ;;
    esac
}

show() {
    # A job's number, and nothing that could lead elsewhere.
    case ${SLURM_JOB_ID:-} in '' | *[!0-9]*) return ;; esac
    log=${SLURM_JOB_STDOUT:-}
    case $log in
    '' | /dev/* | *%*) return ;; # no batch job, no log, or a name that was not filled in
    /*) ;;
    *) log=${SLURM_JOB_WORK_DIR:-}/$log ;;
    esac
    nodes=${SLURM_JOB_NODELIST:-${SLURM_NODELIST:-}}
    if [ -n "$nodes" ] && [ -n "${SLURMD_NODENAME:-}" ] && [ "$(first_node "$nodes")" != "$SLURMD_NODENAME" ]; then
        return
    fi
    umask 022
    mkdir -p "$folder" && ln -sfn -- "$log" "$folder/$SLURM_JOB_ID.log"
}

show >/dev/null 2>&1
exit 0
