#!/usr/bin/env bash
# What the exporter costs: a minute with eight logs that each gain ten lines a second, scraped every 5 s, beside Debian's
# node_exporter in the same minute. Not a test: `cargo build --release`, then this.
set -euo pipefail
cd "$(dirname "$0")/.."

logs=$(mktemp -d)
started=()
trap 'kill "${started[@]}" 2>/dev/null; rm -r "$logs"' EXIT

for run in 1 2 3 4 5 6 7 8; do
    (for step in $(seq 640); do
        echo "train/loss=1.0, epoch=0, lr=3e-5, global_step=$step"
        sleep 0.1
    done >"$logs/run$run.log") &
    started+=($!)
done
target/release/training-exporter --log.path "$logs/*.log" --web.listen-address 127.0.0.1:19841 --log.level warn &
ours=$!
prometheus-node-exporter --web.listen-address 127.0.0.1:19100 >"$logs/node_exporter.txt" 2>&1 &
node=$!
started+=("$ours" "$node")
sleep 3

ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
before=("$(ticks "$ours")" "$(ticks "$node")")
for _ in $(seq 12); do
    curl -sf 127.0.0.1:19841/metrics >/dev/null
    curl -sf 127.0.0.1:19100/metrics >/dev/null
    sleep 5
done
report() { # name, pid, ticks before
    local used=$(($(ticks "$2") - $3))
    printf '%-18s %5d ms CPU in a minute, %6d KiB resident\n' "$1" "$((used * 1000 / $(getconf CLK_TCK)))" \
        "$(awk '/^VmRSS/ { print $2 }' "/proc/$2/status")"
}
report training-exporter "$ours" "${before[0]}"
report node_exporter "$node" "${before[1]}"
