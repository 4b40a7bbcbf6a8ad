#!/usr/bin/env bash
# A machine for one trial: this system under an overlay that nobody keeps, with a systemd of its own as first process and
# no network but loopback. What the script given with it says and how it ends is what this says and how it ends.
#
#   machine.sh TRIAL FILE...     as root; TRIAL and the files lie in /trial there
set -euo pipefail
if [ "${1:-}" != inside ]; then
    # Mounts of its own, which end with it.
    exec unshare --mount --propagation private -- "$0" inside "$@"
fi
shift

place=$(mktemp -d)
trap 'umount -R "$place" 2>/dev/null; rmdir "$place"' EXIT
mount -t tmpfs tmpfs "$place"
mkdir "$place"/{upper,work,machine}
mount -t overlay overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" "$place/machine"
root=$place/machine

rm -rf "$root/trial"
mkdir "$root/trial"
cp "$@" "$root/trial"
touch "$root/trial/said"
cat >"$root/etc/systemd/system/trial.service" <<EOF
[Unit]
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
StandardOutput=append:/trial/said
StandardError=append:/trial/said
ExecStart=/bin/bash "/trial/$(basename "$1")"
TimeoutStartSec=180
EOF
# What this machine was told not to start is of no concern there, and its services are not wanted.
rm -f "$root/usr/sbin/policy-rc.d"
# Another identity: journals of machines with the same one would be one.
: >"$root/etc/machine-id"

ended=0
SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 timeout --kill-after=5 240 \
    systemd-nspawn --quiet --directory="$root" --machine="trial-$$" --private-network --register=no --keep-unit \
    --link-journal=no --console=pipe --boot systemd.unit=trial.service \
    </dev/null >"$place/console" 2>&1 || ended=$?
cat "$root/trial/said"
if [ "$ended" != 0 ]; then tail -n 40 "$place/console" >&2; fi
exit "$ended"
