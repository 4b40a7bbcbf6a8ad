#!/bin/sh
# Epilog of Slurm: takes back the link that prolog.sh made. The exporter has the log open and tells how the job ended
# all the same.
#
#   slurm.conf    Epilog=/usr/share/training-exporter/slurm/epilog.sh
#
# An epilog that fails drains the node. This one always succeeds, needs no PATH, and asks no Slurm command.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
folder=${TRAINING_EXPORTER_SLURM:-/run/training-exporter/slurm}

case ${SLURM_JOB_ID:-} in
'' | *[!0-9]*) ;;
*) rm -f -- "$folder/$SLURM_JOB_ID.log" >/dev/null 2>&1 ;;
esac
exit 0
