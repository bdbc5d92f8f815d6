#!/usr/bin/env bash
# Writes a Markdown file as the pull request's comment, updating the one of an earlier run: the
# comment with the marker that the token's own user wrote.
# Usage: comment.sh FILE; NUMBER is the pull request, GITHUB_REPOSITORY and GH_TOKEN are those of
# the workflow. The first line of the file is the marker by which the comment is found again.
set -euo pipefail

marker=$(head -n 1 "$1")
body=$(mktemp)
trap 'rm -f "$body"' EXIT

# A comment holds 65,536 characters: of a longer file, what stands before the last line that is
# inside no fence and no fold.
LC_ALL=C awk -v most=64000 '
    { size += length($0) + 1; if (size > most) { cut = 1; exit } lines[++n] = $0 }
    /^ *```/ { fence = !fence }
    !fence && /<details>/ { depth++ }
    !fence && /<\/details>/ { depth-- }
    !fence && !depth { whole = n }
    END {
        last = cut ? whole : n
        for (i = 1; i <= last; i++) print lines[i]
        if (cut) print "\n*The rest is in the summary of the job.*"
    }' "$1" > "$body"

# The token of a workflow may not ask who it is; it is the bot.
login=$(gh api user --jq .login 2> /dev/null) || login=
[ -n "$login" ] || login="github-actions[bot]"
comments="repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments"
earlier=$(gh api --paginate "$comments" \
    --jq ".[] | select(.user.login == \"$login\")
        | select(.body | startswith(\"$marker\")) | .id" | head -n 1) || earlier=
if [ -n "$earlier" ]; then
    set -- --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$earlier"
else
    set -- --method POST "$comments"
fi
# A pull request from a fork has a token that may only read.
gh api "$@" --field "body=@$body" --silent ||
    echo "::notice::no comment written: the token may not; the comparison is in the job summary"
