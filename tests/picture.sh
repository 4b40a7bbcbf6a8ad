#!/usr/bin/env bash
# Makes the README's picture, tests/browser/picture.png: the demo's silent validation beside its hang, as Chromium shows
# them. It takes some minutes. Needs what tests/run.sh installs, and pngquant and fonts-inter from Debian.
set -euo pipefail
cd "$(dirname "$0")/.."

TRAINING_EXPORTER_PICTURE_SPEED=5 cargo test --quiet --test browser a_silent_validation
pngquant --force --strip --quality 60-95 --output tests/browser/picture.png target/browser/picture.png
ls -l tests/browser/picture.png
