#!/usr/bin/env bash
# Installs what the tests need and runs everything. Needs a Rust toolchain and a Debian-like system, nothing else.
#
# The tools come from Debian's packages and PyPI and are unpacked under target/tools: nothing is installed on the
# system, and no service is started. A tool that is on the PATH already is used as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$PWD/target/tools
mkdir -p "$tools"
export PATH="$tools/debian/usr/bin:$PATH"

# Unpacks Debian packages, without their dependencies: these are Go programs that need only the C library.
unpack() {
    local folder
    folder=$(mktemp -d)
    if ! (cd "$folder" && apt-get download "$@" >/dev/null 2>&1); then
        echo "tests/run.sh: the package lists are old or absent, updating them" >&2
        if [ "$(id -u)" = 0 ]; then apt-get update -qq; else sudo apt-get update -qq; fi
        (cd "$folder" && apt-get download "$@" >/dev/null)
    fi
    for package in "$folder"/*.deb; do dpkg -x "$package" "$tools/debian"; done
    rm -r "$folder"
}

command -v promtool >/dev/null && command -v prometheus >/dev/null || unpack prometheus
command -v amtool >/dev/null && command -v prometheus-alertmanager >/dev/null || unpack prometheus-alertmanager

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
if command -v python3 >/dev/null; then
    python3 alerts/tests/check.py
else
    echo "tests/run.sh: no Python, so no Alertmanager is asked which alert mutes which" >&2
fi

echo "== tests"
log=$tools/tests.log
cargo test --workspace --doc --quiet
cargo test --workspace --lib --bins --tests --no-fail-fast 2>&1 | tee "$log"
awk '/^test result:/ { passed += $4; failed += $6 } END { printf "%d passed, %d failed\n", passed, failed }' "$log"
