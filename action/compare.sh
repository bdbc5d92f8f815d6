#!/usr/bin/env bash
# What a pull request does to every plan of which any document changes, as Markdown.
# Usage: compare.sh FILE; BASE is the tip of the base branch, BASE_NAME and HEAD_NAME are the
# branches, HEAD_COMMIT the tip of the other, PLANS the plans and folders (all where it is empty).
# Exit status: that of trainplan, 2 where a plan that changed is not valid, 1 where it misses what it
# requires.
set -euo pipefail

report=$1
work=$(mktemp)
told=$(mktemp)
trap 'rm -f "$work" "$told"' EXIT

# Nothing that a repository configures is run: no monitor of files, no hook, no repository without a
# working tree that somebody committed.
git() {
    command git -c core.fsmonitor=false -c core.hooksPath=/dev/null \
        -c safe.bareRepository=explicit "$@"
}
# A name of a branch is text, never markup or a command.
plain() { printf '%s' "${1//[^A-Za-z0-9._\/#@+=-]/_}"; }
side() { printf "\`%s\` at \`%s\`" "$(plain "$1")" "$(plain "${2:0:10}")"; }
annotate() { # a line at a time; a line cannot begin another command
    while IFS= read -r line; do
        line=${line//'%'/%25}
        printf '::error title=trainplan::%s\n' "${line//$'\r'/%0D}"
    done
}

# A pull request is checked out as its merge into the base, whose first parent is then what it is
# compared with: the base may have moved on since. Otherwise it is where the branches part.
mapfile -t parents < <(git cat-file -p HEAD | sed -n '/^$/q; s/^parent //p')
if [ "${#parents[@]}" = 2 ] && [ "$(git rev-parse HEAD)" = "${GITHUB_SHA:-}" ]; then
    base=${parents[0]}
else
    base=$(git merge-base "${BASE:?}" HEAD 2> /dev/null) || base=$BASE
fi

{
    echo "<!-- trainplan -->"
    echo "## Training plans"
    echo
    echo "$(side "${BASE_NAME:-base}" "$base") → $(side "${HEAD_NAME:-head}" "${HEAD_COMMIT:-$(git rev-parse HEAD)}")"
    echo
} > "$report"

# A shallow checkout does not hold the base.
if ! git cat-file -e "$base^{commit}" 2> /dev/null &&
    ! git fetch --quiet --no-tags --no-recurse-submodules --depth=1 origin "$base" 2> /dev/null; then
    missing="the base commit ${base:0:10} is not in this checkout and cannot be fetched: check out with fetch-depth: 0"
    echo "$missing" | annotate
    echo "Not compared: $missing." >> "$report"
    exit 2
fi

read -r -d '' -a paths <<< "${PLANS:-}" || true # of all lines
options=()
for path in "${paths[@]}"; do options+=(--plans "$path"); done
status=0
trainplan diff "$base" --format md --root . "${options[@]}" > "$work" 2> "$told" || status=$?
if [ -s "$work" ]; then
    cat "$work" >> "$report"
else # output as it is; no line of it ends the fence
    { echo '```text' && sed "s/\`\`\`/'''/g" "$told" && echo '```'; } >> "$report"
fi
[ "$status" = 0 ] || annotate < "$told"
exit "$status"
