#!/usr/bin/env bash
# The life of the package on a machine with systemd: installed, started, scraped, given capabilities, shown a job of
# Slurm, stopped, removed, purged. Each line that it says is a fact that the test asks for; the first thing that is
# wrong ends it.
set -euo pipefail
cd /trial

fail() {
    echo "WRONG: $*"
    systemctl status --no-pager --lines=30 training-exporter || true
    exit 1
}

scrape() {
    exec 3<>/dev/tcp/127.0.0.1/9841 || return 1
    printf 'GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
    cat <&3
    exec 3>&-
}

# until_scraped PATTERN: a scrape shows it, within half a minute.
until_scraped() {
    for _ in $(seq 60); do
        if scrape 2>/dev/null | grep -E "$1"; then return; fi
        sleep 0.5
    done
    scrape | grep '^training_' || true
    fail "no scrape shows $1"
}

of_process() { grep "^$1:" "/proc/$(systemctl show --value -p MainPID training-exporter)/status" | tr '\t' ' '; }

echo "== installed"
dpkg -i training-exporter_*.deb
[ "$(systemctl is-enabled training-exporter)" = enabled ] || fail "not enabled"
[ "$(systemctl is-active training-exporter)" = active ] || fail "not started"
until_scraped '^training_exporter_build_info'
echo "runs as $(systemctl show --value -p User training-exporter), $(of_process CapEff), $(of_process NoNewPrivs), $(of_process Seccomp)"
training-exporter check /etc/training-exporter/config.yaml

echo "== a job of Slurm, of another user, whose log nobody else may read"
install -d -o nobody -m 700 /home/ann
# Half of a recorded training: it lives.
install -o nobody -m 600 <(head -c 40000 train.log) /home/ann/slurm-4711.out
cp /bin/sleep /usr/local/bin/trainer
systemd-run --quiet --unit=job --uid=nobody -p StandardOutput=append:/home/ann/slurm-4711.out trainer 300
env -i SLURM_JOB_ID=4711 SLURM_JOB_STDOUT=/home/ann/slurm-4711.out SLURM_JOB_NODELIST=gpu1 SLURMD_NODENAME=gpu1 \
    /usr/share/training-exporter/slurm/prolog.sh
sed -i -E 's/^#(logs:|  - path: .*slurm)/\1/' /etc/training-exporter/config.yaml
training-exporter check /etc/training-exporter/config.yaml
before=$(systemctl show --value -p MainPID training-exporter)
systemctl reload training-exporter
[ "$(systemctl show --value -p MainPID training-exporter)" = "$before" ] || fail "a reload is no restart"
# A link into a folder that may not be entered leads nowhere: the run is not known.
until_scraped '^training_exporter_runs 0$'

echo "== with capabilities.conf"
install -D -m 644 /usr/share/training-exporter/capabilities.conf \
    /etc/systemd/system/training-exporter.service.d/capabilities.conf
systemctl daemon-reload
systemctl restart training-exporter
until_scraped '^training_run_info\{.*run="4711@'
until_scraped '^training_processes\{run="4711@[^"]*"\} 1$'
until_scraped '^training_process_written_bytes_total\{run="4711@'
echo "has $(of_process CapEff), $(of_process CapBnd)"

echo "== the job ends"
systemctl stop job
env -i SLURM_JOB_ID=4711 /usr/share/training-exporter/slurm/epilog.sh
[ ! -e /run/training-exporter/slurm/4711.log ] || fail "the link is still there"
until_scraped '^training_run_ended\{.*run="4711@'
[ "$(systemctl show --value -p NRestarts training-exporter)" = 0 ] || fail "it died in between"

echo "== upgraded, stopped, removed, purged"
dpkg -i training-exporter_*.deb
until_scraped '^training_exporter_build_info'
systemctl stop training-exporter
echo "stopped: $(systemctl show -p Result -p ExecMainStatus training-exporter | tr '\n' ' ')"
systemctl start training-exporter
dpkg -r training-exporter
if systemctl is-active --quiet training-exporter; then fail "removed, and it runs"; fi
[ -e /etc/training-exporter/config.yaml ] || fail "a removal took the configuration along"
rm -r /etc/systemd/system/training-exporter.service.d
dpkg -P training-exporter
left=$(find /etc /usr /var -xdev -name '*training-exporter*' ! -path '/var/cache/*')
[ -z "$left" ] || fail "left behind: $left"
echo "== nothing is left"
