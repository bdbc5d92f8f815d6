#!/usr/bin/env bash
# Writes a Markdown file as the pull request's comment, updating the one of an earlier run.
# Usage: comment.sh FILE; NUMBER is the pull request, GITHUB_REPOSITORY and GH_TOKEN are those of
# the workflow. The first line of the file is the marker by which the comment is found again.
set -euo pipefail

marker=$(head -n 1 "$1")
body=$(mktemp)
trap 'rm -f "$body"' EXIT
head -c 65000 "$1" > "$body" # a comment holds 65,536 characters

comments="repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments"
earlier=$(gh api --paginate "$comments" \
    --jq ".[] | select(.body | startswith(\"$marker\")) | .id" | head -n 1) || earlier=
if [ -n "$earlier" ]; then
    set -- --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$earlier"
else
    set -- --method POST "$comments"
fi
# A pull request from a fork has a token that may only read.
gh api "$@" --field "body=@$body" --silent ||
    echo "::notice::no comment written: the token may not; the comparison is in the job summary"
