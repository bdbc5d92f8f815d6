#!/usr/bin/env bash
# What a pull request does to the plans of a folder, as Markdown.
# Usage: compare.sh FILE; BASE is the commit to compare with, PLANS the folder.
set -euo pipefail

report=$1
work=$(mktemp)
trap 'rm -f "$work"' EXIT

# A shallow checkout does not hold the base.
git cat-file -e "$BASE^{commit}" 2>/dev/null || git fetch --quiet --depth=1 origin "$BASE"

{
    echo "<!-- trainplan -->"
    echo "## Training plans"
} > "$report"

touched=0
say() { printf '\n%s\n' "$@" >> "$report"; }
# Output as it is; no line of it ends the fence.
fenced() { say '```text' && sed "s/\`\`\`/''/g" "$work" >> "$report" && echo '```' >> "$report"; }

while IFS= read -r -d '' status && IFS= read -r -d '' file; do
    case $file in *.yaml | *.yml) ;; *) continue ;; esac
    touched=1
    name=${file//[\`<>$'\n']/_} # a file name is text, never markup
    case $status in
        M) command=(trainplan diff "$BASE:$file" "$file" --format md --root .) ;;
        A) command=(trainplan "$file" --format text --root .) ;;
        *) say "### \`$name\`" "The plan is removed." && continue ;;
    esac
    say "### \`$name\`"
    if "${command[@]}" > "$work" 2>&1; then
        if [ "$status" = A ]; then fenced
        else say "" && cat "$work" >> "$report"; fi
    else
        fenced
    fi
done < <(git diff --name-status --no-renames -z "$BASE" -- "$PLANS")

[ "$touched" = 1 ] || say "No plan in \`$PLANS\` changes."
