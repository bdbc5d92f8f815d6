#!/usr/bin/env bash
# Installs trainplan into an environment of its own and puts its commands, and nothing else of that
# environment, on the path of later steps.
# PYTHON is the interpreter (3.11 or later); GITHUB_ACTION_PATH, GITHUB_PATH and RUNNER_TEMP are
# those of the runner.
# The current folder is a stranger's checkout: Python runs isolated (-I), so that it imports nothing
# from there, nor what PYTHONPATH names, and pip reads no file of it. What pip itself begins is not
# isolated, so that none of Python's variables is left.
set -euo pipefail
cd "$RUNNER_TEMP"
for name in "${!PYTHON@}"; do [ "$name" = PYTHON ] || unset "$name"; done

"$PYTHON" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "::error::trainplan needs Python 3.11 or later, not $("$PYTHON" --version)"
    exit 1
}
"$PYTHON" -I -m venv "$RUNNER_TEMP/trainplan"
"$RUNNER_TEMP/trainplan/bin/python" -I -m pip install --quiet "$GITHUB_ACTION_PATH"
mkdir -p "$RUNNER_TEMP/trainplan-commands"
printf '#!/usr/bin/env bash\nexec %q -I %q "$@"\n' \
    "$RUNNER_TEMP/trainplan/bin/python" "$RUNNER_TEMP/trainplan/bin/trainplan" \
    > "$RUNNER_TEMP/trainplan-commands/trainplan"
chmod +x "$RUNNER_TEMP/trainplan-commands/trainplan"
echo "$RUNNER_TEMP/trainplan-commands" >> "$GITHUB_PATH"
