"""A difference as text: for a terminal, for a comment on a pull request, as JSON.

The verdict and the causes come first, then the changed keys, then seconds and bytes by part, then
other changes and what is unchanged. ``everything`` adds each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from planner.base import numbers, resources
from planner.base.display import clean, columns, cut, format_md_table, one_line, plain
from planner.base.numbers import SCALES, divide_whole, format_fixed, round_digits
from planner.report.layout import by_prefix
from planner.report.report import escape_md, format_code
from planner.report.sentences import wrap_text
from planner.results.lookup import LABELS
from planner.results.verdict import FITS, VERDICTS
from planner.review.diff import (
    CAUSES,
    PROCESS,
    STEP,
    WITH_ROLLOUT,
    Change,
    ChangeRow,
    Diff,
    Parts,
    format_change,
    format_count,
    is_number_value,
)

#: A line that reviewers do not see, by which a comment is found again and updated in place.
MARKER = "<!-- trainplan diff -->"
WIDTH, LINES, BYTES, SHORT = 80, 25, 6000, 28
#: Keys and parts that are shown at most.
KEYS, PARTS, ASKED = 5, 6, 4
#: Headlines: name, and the words for less and more.
HEADLINES: Mapping[str, Sequence[str]] = resources.load_beside(__file__)
MOST_HEADLINES = 3
#: Changes below this share are omitted beside larger ones.
SLIGHT = Fraction(1, 200)
TOTALS = {STEP: "one step", WITH_ROLLOUT: "one step", PROCESS: "fullest device"}
#: What JSON has of a row.
SAVED = ("id", "kind", "title", "unit", "old", "new")


def state_verdict(found: Diff) -> str:
    """State whether the plan fits and what changed; a change of the verdict first."""
    old, new = found.states
    who = list(found.causes)
    if not who:
        said = "nothing changed"
    elif not found.one_plan and "plan" in who:
        said = "the plans differ"
    else:
        rest = [name for name in who if name in ("presets", "prices")]
        singular = [f"the {name}" for name in who if name not in rest]
        said = f"{' and '.join([*singular, *rest])} changed"
    if old != new:
        words = " → ".join(VERDICTS[state].word.upper() for state in (old, new))
        return f"{words}: {said}"
    tail = VERDICTS[new].still[not found.one_plan and "plan" in who]
    tail = tail if who else tail.replace(" still", "")
    return f"{said.upper()}; {tail}"


def format_figures(found: Diff) -> str:
    """Format the changes of days, cost and memory; empty without any."""
    rows = [found.moved[i] for i in HEADLINES if i in found.moved]
    large = [row for row in rows if not 0 < abs(_compute_share(row)) < SLIGHT]
    rows = large or rows
    if len(rows) > MOST_HEADLINES:
        rows = [*rows[: MOST_HEADLINES - 1], rows[-1]]
    return ", ".join(_format_figure(row) for row in rows)


def _format_figure(row: ChangeRow) -> str:
    """Format the change of a headline: ``22.6 days sooner (202 → 179, −11.2 %)``."""
    name, less, more = HEADLINES[row.id]
    if not (is_number_value(row.old) and is_number_value(row.new)):
        when = "before, none now" if row.new is None else "now, none before"
        return f"{name} {row.format_value(row.old if row.new is None else row.new)} {when}"
    by, share = Fraction(row.new) - Fraction(row.old), _compute_share(row)
    percent = f", {numbers.text(share, style='change')}" if abs(share) >= SLIGHT else ""
    words = f"{row.format_value(abs(by))} {more if by > 0 else less}"
    return f"{words} ({_format_pair(row, words)}{percent})"


def _compute_share(row: ChangeRow) -> Fraction:
    """Return the change as a share; 0 if there is no base."""
    if not (is_number_value(row.old) and is_number_value(row.new)) or not row.old:
        return Fraction(0)
    return (Fraction(row.new) - Fraction(row.old)) / abs(Fraction(row.old))


def _format_pair(row: ChangeRow, before: str = "") -> str:
    """Format ``old → new``, with a common unit once, or not at all if ``before`` has it."""
    old, new = map(row.format_value, (row.old, row.new))
    unit = new.partition(" ")[2]
    if unit and old.partition(" ")[2] == unit:
        old = old.removesuffix(f" {unit}")
        new = new.removesuffix(f" {unit}") if f" {unit} " in before else new
    return f"{old} → {new}"


def format_sentence(found: Diff) -> str:
    """Format the verdict and the changes in one line."""
    return " ".join(f"{words}." for words in (state_verdict(found), explain_diff(found)) if words)


def explain_diff(found: Diff) -> str:
    """Explain why the plan does not fit; format the changes of days, cost and memory."""
    said = [format_figures(found)]
    if not said[0] and found.causes:
        said = ["days, cost and memory stay" if found.moved else "no number moves"]
    new = found.sides[1].get("quantities", {})
    least, left, host, needed, there = (
        new.get(i, {}).get("value")
        for i in (FITS, "memory.host.headroom", "memory.host", PROCESS, "memory.capacity")
    )
    where = ""
    if is_number_value(left) and is_number_value(host) and left == least:
        needed, there, where = host, Fraction(host) + Fraction(left), " of host memory per node"
    if found.states[1] == "no" and is_number_value(needed) and is_number_value(there):
        short, there_are = (numbers.text(value, "bytes") for value in (needed, there))
        said.insert(0, f"{short}{where} are needed, {there_are} are there")
    return ". ".join(words[:1].upper() + words[1:] for words in said if words)


class Line(NamedTuple):
    """A part of a sum as printed, before and after."""

    label: str
    before: str
    after: str
    change: str


def split_by_part(parts: Parts, most: int = PARTS) -> tuple[str, list[Line]]:
    """Return a sum by its parts: its unit, and lines that add up exactly as printed, down and
    across; the parts with the largest changes, then all others in one, then the sum."""
    largest = max(map(abs, parts.totals))
    name, size = next((step for step in SCALES[parts.unit] if largest >= step[1]), (parts.unit, 1))
    decimals = max(0, 3 - round_digits(largest / size, 4).adjusted()) if largest else 0
    last = Fraction(size) / 10**decimals  # what the last digit that prints is worth
    totals = [round(total / last) for total in parts.totals]
    both = zip(*parts.parts.values(), strict=True)
    cells = zip(*map(divide_whole, both, totals), strict=True)
    numbers = dict(zip(parts.parts, cells, strict=True))
    order = sorted(numbers, key=lambda part: -abs(numbers[part][1] - numbers[part][0]))
    kept = [part for part in order if numbers[part][0] != numbers[part][1]]
    kept = kept if len(kept) == most and len(order) == most else kept[: most - 1]
    rest = [part for part in order if part not in kept]
    rows = [(part, *numbers[part]) for part in kept]
    if rest:
        words = ", ".join(rest) if len(rest) < 5 else ""
        label = words if 0 < len(words) <= 38 else "everything else"
        rows.append((label, *(sum(numbers[part][i] for part in rest) for i in (0, 1))))
    rows.append((TOTALS[parts.of], *totals))

    def text(number: int, sign: str = "") -> str:
        """Format a part in the unit of all parts, with a sign."""
        size = format_fixed(Fraction(abs(number), 10**decimals), decimals)
        return ("−" if number < 0 else sign) + size

    lines = [Line(n, text(a), text(b), text(b - a, "+") if a != b else "=") for n, a, b in rows]
    return {"s": "seconds"}.get(name, name), lines


def list_figures(found: Diff) -> list[str]:
    """List changed key figures besides the headlines: name, old and new."""
    told = {*HEADLINES, STEP}
    said = []
    for identifier, label in LABELS.items():
        row = found.moved.get(identifier)
        if row is not None and row.id not in told:
            name = label[:1].lower() + label[1:]
            said.append(f"{name} {_format_pair(row).removesuffix(f' {name}')}")
    return said


def join_figures(found: Diff, most: int) -> str:
    """Join these to at most ``most`` characters."""
    said = list_figures(found)
    for kept in range(len(said), 0, -1):
        more = [f"{len(said) - kept} more"] if kept < len(said) else []
        words = f"also: {', '.join([*said[:kept], *more])}"
        if len(words) <= most:
            return words
    return ""


def list_answers(found: Diff) -> list[str]:
    """List the changed answers and requirements, a line each."""
    holds = {True: "holds", False: "does not hold", None: "–"}
    said = [f"answer {format_line(row)}" for row in found.of("answer")]
    for row in found.of("requirement"):
        said.append(f"required {clean(row.title)}: {holds[row.old]} → {holds[row.new]}")
    return said


def list_unchanged(found: Diff) -> str:
    """List what did not change, of the plan, the program, presets and prices."""
    names = {"plan": "the plan", "program": f"the program ({found.versions[1]})"}
    return ", ".join(names.get(cause, cause) for cause in CAUSES if cause not in found.causes)


def _list_first(found: Diff) -> str:
    """List the quantities that a new program changed directly, if it is the only cause."""
    first = found.first_moved if list(found.causes) == ["program"] else []
    if not first:
        return ""
    some = [*(row.id for row in first[:4]), *([f"{len(first) - 4} more"] if len(first) > 4 else [])]
    rest = len(found.moved) - len(first)
    return f"moved first: {', '.join(some)}" + (f"; {rest} follow" if rest else "")


def format_line(row: ChangeRow) -> str:
    """Format a row: ``id: old → new (percent)``."""
    how = format_change(row)
    old, new = row.format_value(row.old), row.format_value(row.new)
    if old == new:
        old, new = str(row.old), str(row.new)
    return f"{row.id}: {old} → {new}" + (f" ({how})" if how else "")


def group_rows(found: Diff) -> list[tuple[str, list[ChangeRow]]]:
    """Group every row by cause: the inputs, the quantities that inputs or the program changed
    directly, and further ones by chapter."""
    first = found.first_moved
    ids = {row.id for row in first}
    follow = [row for row in found.of("quantity") if row.id not in ids]
    chapters = [(f"{title}, in consequence", rows) for _, title, rows in by_prefix(follow)]
    groups = [("Answers", found.of("answer")), ("Requirements", found.of("requirement"))]
    groups += [("Inputs", found.of("input")), ("Moved by them or by the program", first), *chapters]
    return [(title, rows) for title, rows in groups if rows]


def format_diff(found: Diff, everything: bool = False) -> str:
    """Format for a terminal, in at most ``LINES`` lines unless ``everything`` is wanted."""
    head = _wrap_words(format_sentence(found))[:4]
    keys = _list_key_lines(found.changes, len(found.changes) if everything else KEYS)
    tail = [row for words in list_answers(found)[:ASKED] for row in _wrap_words(words, 2)[:2]]
    tail += _wrap_words(join_figures(found, 2 * WIDTH - 20), 2)
    tail += _wrap_words(_list_first(found), 2)[:2]
    last = [f"unchanged: {list_unchanged(found)}" if list_unchanged(found) else ""]
    if found.rows and not everything:
        last.append(f"{format_count(len(found.rows), 'row')} in all: --all")
    tail += _wrap_words(" · ".join(filter(None, last)), 2) if found.causes else []
    # What is left of the lines, but for the head of the table and an empty line between two sums.
    sums = found.parts
    room = LINES - sum(len(block) + 1 for block in (head, keys, tail) if block) - max(1, len(sums))
    each = [max(3, (room + place) // 2) if len(sums) > 1 else room for place in range(len(sums))]
    most = [PARTS if everything else min(PARTS, lines - 1) for lines in reversed(each)]
    blocks = [head, keys, _sum_lines(sums, most), tail]
    if everything:
        blocks += [
            [title, *(f"  {format_line(row)}" for row in rows)] for title, rows in group_rows(found)
        ]
    return "\n\n".join("\n".join(map(one_line, block)) for block in blocks if block) + "\n"


def _wrap_words(words: str, indent: int = 0) -> list[str]:
    """Wrap words to lines, none of which begins with a percent sign."""
    return [line.replace("\0", " ") for line in wrap_text(words.replace(" %", "\0%"), " " * indent)]


def _list_key_lines(changes: Sequence[Change], most: int) -> list[str]:
    """List the changed keys, with their places at the right."""
    kept = list(changes[:most])
    width = max((len(one.key) for one in kept), default=0)
    lines = []
    for one in kept:
        said = f"  {one.key:<{width}}  {cut(one.old, SHORT)} → {cut(one.new, SHORT)}"
        room = max(12, WIDTH - len(said) - 2)
        lines.append(f"{said}  {cut(one.place, room):>{room}}".rstrip())
    return [*lines, *_count_hidden(changes, most, "  ")]


def _count_hidden(changes: Sequence[Change], most: int, indent: str = "") -> list[str]:
    """Count the keys that are not shown, by part of the plan."""
    if len(changes) <= most:
        return []
    parts: dict[str, int] = {}
    for one in changes[most:]:
        part = one.key.partition(".")[0]
        parts[part] = parts.get(part, 0) + 1
    said = ", ".join(f"{part} {count}" for part, count in parts.items())
    return [f"{indent}and {len(changes) - most} more keys ({said})"]


def _sum_lines(sums: Sequence[Parts], most: Sequence[int]) -> list[str]:
    """Format seconds and bytes by part, before and after."""
    heads = (head.rjust(8) for head in ("before", "after", "change"))
    rows, ends = [("", " " * 38, *heads)], []
    for one, kept in zip(sums, most, strict=True):
        unit, lines = split_by_part(one, kept)
        for number, entry in enumerate(lines):
            mark = unit if number == 0 else "=" if entry is lines[-1] else ""
            rows.append((mark, *entry))
        ends.append(len(rows))
    if len(rows) == 1:
        return []
    table = columns(rows, right=(2, 3, 4), indent="  ")
    for end in reversed(ends[:-1]):
        table.insert(end, "")
    return table


def render_diff(found: Diff, everything: bool = False) -> str:
    """Format for a comment: as for a terminal, in tables, below ``BYTES`` bytes; with
    ``everything`` each row in folds."""
    most = KEYS
    while True:
        lines = _build_comment(found, most)
        if most == 0 or len("\n".join(lines).encode()) < BYTES:
            break
        most -= 1
    if everything:
        for title, rows in group_rows(found):
            about = f"<details><summary>{escape_md(title)}: {len(rows)}</summary>"
            head = "input" if rows[0].kind == "input" else "quantity"
            lines += [about, "", *_build_rows(head, rows), "</details>", ""]
    return "\n".join(lines).rstrip() + "\n"


def _build_comment(found: Diff, most: int) -> list[str]:
    """Return the comment of a pull request up to its folds: the verdict, the changes, the sums.

    Args:
        found: the comparison.
        most: changes that are listed; the rest is counted.

    Returns:
        lines of Markdown.
    """
    names = [format_code(cut(one_line(clean(name)), 100)) for name in (found.old, found.new)]
    rest = f" {escape_md(explain_diff(found))}." if explain_diff(found) else ""
    lines = [MARKER, f"**{escape_md(state_verdict(found))}.**{rest}", ""]
    lines += [" → ".join(names), ""]
    if found.changes:
        table = [["changed", "before", "after", "where"]]
        for one in found.changes[:most]:
            cells = [escape_md(cut(text, 60)) for text in (one.old, one.new, one.place)]
            table.append([format_code(cut(one.key, 60)), *cells])
        lines += [*format_md_table(table, right=(1, 2)), ""]
        for words in _count_hidden(found.changes, most):
            lines += [escape_md(words), ""]
    for parts in found.parts:
        unit, rows = split_by_part(parts)
        table = [[unit, "before", "after", "change"]]
        for row in rows:
            mark = "**" if row is rows[-1] else ""
            table.append([f"{mark}{escape_md(cell)}{mark}" for cell in row])
        lines += [*format_md_table(table, right=(1, 2, 3)), ""]
    last = f"unchanged: {list_unchanged(found)}" if list_unchanged(found) and found.causes else ""
    for words in filter(
        None, (*list_answers(found)[:ASKED], join_figures(found, 400), _list_first(found), last)
    ):
        lines += [escape_md(cut(words, 400)), ""]
    return lines


def _build_rows(heading: str, rows: Sequence[ChangeRow]) -> list[str]:
    """Return a table of changed values in Markdown, a line each, and an empty one behind it."""
    table = [[heading, "old", "new", "change"]]
    for row in rows:
        cells = (row.format_value(row.old), row.format_value(row.new), format_change(row))
        name = format_code(one_line(row.id)) if row.kind == "input" else escape_md(row.title)
        table.append([name, *map(escape_md, cells)])
    return [*format_md_table(table, right=(1, 2, 3)), ""]


def dump_diff(found: Diff) -> dict[str, Any]:
    """Return all of it as data: the verdict, the causes, the sums by part, each row."""
    return {
        "old": found.old,
        "new": found.new,
        "sentence": format_sentence(found),
        "verdict": dict(zip(("old", "new"), found.states, strict=True)),
        "changed": list(found.causes),
        "changes": [one._asdict() for one in found.changes],
        "parts": [
            {
                "id": one.of,
                "unit": one.unit,
                "total": [plain(total) for total in one.totals],
                "parts": {name: [plain(v) for v in pair] for name, pair in one.parts.items()},
            }
            for one in found.parts
        ],
        "rows": [{key: getattr(row, key) for key in SAVED} for row in found.rows],
    }
