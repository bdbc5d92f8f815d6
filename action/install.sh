#!/usr/bin/env bash
# Installs trainplan into an environment of its own and puts its commands, and nothing else of that
# environment, on the path of later steps.
# PYTHON is the interpreter (3.11 or later); GITHUB_ACTION_PATH, GITHUB_PATH and RUNNER_TEMP are
# those of the runner.
set -euo pipefail

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "::error::trainplan needs Python 3.11 or later, not $("$PYTHON" --version)"
    exit 1
}
"$PYTHON" -m venv "$RUNNER_TEMP/trainplan"
"$RUNNER_TEMP/trainplan/bin/python" -m pip install --quiet "$GITHUB_ACTION_PATH"
mkdir -p "$RUNNER_TEMP/trainplan-commands"
ln -sf "$RUNNER_TEMP/trainplan/bin/trainplan" "$RUNNER_TEMP/trainplan-commands/trainplan"
echo "$RUNNER_TEMP/trainplan-commands" >> "$GITHUB_PATH"
