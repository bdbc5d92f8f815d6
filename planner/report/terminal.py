"""The summary for a terminal: the verdict first, then the headline quantities, on one screen of 80
columns that is readable without colour: a verdict is a word, an interval is two numbers."""

from __future__ import annotations

import locale
import os
import re
import sys
import unicodedata

from planner.base.display import clean, columns
from planner.engine.evaluate import SIZE_ONLY
from planner.report.answer import LEADING, Bar, Better, Headline, Overview, answer_of
from planner.report.facts import list_warnings
from planner.results.lookup import LABELS
from planner.results.result import Result

WIDTH, LINES = 80, 45
BAR = 76
WHISKER = 12
COLOURS = {"ok": "32", "tight": "33", "bad": "31", "unknown": "36"}
#: What parts of bars are drawn with, in their order, and what stands for all of it where the
#: terminal knows ASCII only.
FILLS = "█▓▒░:·"
PLAIN = str.maketrans("█▓▒░·●○├┤─│←→≤≥×−–…⌊⌋±", "#=+-.o*[]-|<><>x--.||+")
#: The groups of a step, and the parts of memory, that share a fill.
OF_MEMORY = {"weights": 0, "gradients": 1, "optimizer": 2, "activations": 3, "cache": 3}
OF_STEP = {"at peak rate": 0, "below peak": 1, "recomputed": 1, "arithmetic": 0, "kernels": 4,
           "exposed communication": 2, "idle": 5}  # fmt: skip
MOST_NUMBERS, MOST_MOVED, MOST_LABEL = 8, 4, 28


def format_summary(result: Result, colour: bool | None = None) -> str:
    """Format a result on one screen, in colour only if standard output is a terminal."""
    wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    paint, answer = wanted if colour is None else colour, answer_of(result)
    state, between, reason = answer.word.partition(" (")
    word = f"{state.upper()}{between}{reason}"
    first = f"{word}  {_cut_text(clean(result.plan.name), WIDTH - len(word) - 2)}"
    indent = " " * (len(word) + 2) if len(word) < 8 else "  "
    coloured = f"\x1b[1;{COLOURS[answer.status]}m{word}\x1b[0m" if paint else word
    lines = [first.replace(word, coloured, 1), *_wrap_indented(answer.text, indent)]
    told = [
        line
        for i, words in list_warnings(result)
        for line in _wrap_indented(f"! {words} ({i})", "")
    ]
    asked, rows, moves = _format_questions(result), answer.better, _list_sensitivity(answer)
    better = _format_layouts("Faster, and fits", rows[1:], answer.heads) if rows else []
    blocks = [
        told,
        _describe_plan(answer),
        asked,
        _format_advice(answer),
        _list_numbers(answer),
        _draw_memory(answer.memory),
        _draw_step(answer.step),
        better,
        moves,
        _list_absent(result),
        _explain_basis(answer),
    ]
    # Answers that a plan asks for take the place of what nobody asked for, from the last on.
    further = [blocks.index(block) for block in (moves, better) if block] if asked else []
    while further and len(lines) + sum(len(b) + 1 for b in blocks if b) > LINES:
        blocks[further.pop(0)] = []
    for block in blocks:
        lines += ["", *block] if block else []
    text = "\n".join(lines) + "\n"
    encoding = getattr(sys.stdout, "encoding", None) or locale.getpreferredencoding(False)
    unicode = encoding.lower().replace("-", "").startswith("utf")
    return text if unicode else text.translate(PLAIN)


def _describe_plan(answer: Overview) -> list[str]:
    """Describe the plan, on two or three lines."""
    text = " · ".join("".join(piece) for piece in answer.plan_line)
    found = f"layout {answer.found}" if answer.found else ""
    measured = f"Published: {answer.published}" if answer.published else ""
    text = text.removesuffix(" · layout found")
    return [line for words in (text, found, measured) for line in _wrap_indented(words, "")]


def _format_questions(result: Result) -> list[str]:
    """Format the answers to the plan's questions and its requirements, a paragraph each."""
    if result.questions is None:
        return []
    said = [f"{clean(one.name)}: {one.sentence}." for one in result.questions.answers]
    required = "; ".join(one.sentence for one in result.questions.requirements)
    said += [f"Required: {required}."] if required else []
    paragraphs = (_wrap_indented(clean(words, 2000), "  ") for words in said)
    return [line for first, *rest in paragraphs for line in (first.strip(), *rest)]


def _format_advice(answer: Overview) -> list[str]:
    """Format the nearest layouts that fit, for a plan that does not."""
    advice = answer.advice
    if advice is None:
        return []
    rows, none, note = advice
    near = "" if none else "Each is at most two changes away; "
    further = [f"  {near}plan.py search tries every layout."]
    further += [f"  {note}"] if note else []
    if none:
        return [*_wrap_indented(none, ""), *further]
    title = "What would fit" if answer.status == "bad" else "To be safe"
    return [*_format_layouts(title, rows, answer.heads), *further]


def _format_layouts(title: str, rows: list[Better], units: tuple[str, str]) -> list[str]:
    """Format layouts as a table, one line each if the changes fit on it.

    Args:
        title: the head of the first column.
        rows: the layouts.
        units: the units of time and cost.

    Returns:
        Lines; columns without a value in any row are left out.
    """
    head = (title, units[0], "", units[1], "GiB", "worst")
    cells = [(row.days, row.change, row.cost, row.memory, row.worst) for row in rows]
    room = WIDTH - sum(max(map(len, column)) + 2 for column in zip(*cells, head[1:], strict=True))
    lines, table = list[str](), [head]
    for row, numbers in zip(rows, cells, strict=True):
        *above, last = _wrap_indented(row.changes, "", width=room - 2)
        table += [(f"  {part}", "", "", "", "", "") for part in above]
        table.append((f"  {last}", *numbers))
    answers = [i for i in range(len(head)) if any(row[i] not in ("", "–") for row in table[1:])]
    lines += columns([[row[i] for i in answers] for row in table], right=range(1, len(answers)))
    return lines


def _list_numbers(answer: Overview) -> list[str]:
    """Format each number with its interval, drawn on one scale, and the id for `explain`."""
    drawn = any(row.ends for row in answer.numbers)
    rows = [("", "", "5 to 95 %", "−50 %  +50 %", "")] if drawn else []
    for row in answer.numbers[:MOST_NUMBERS]:
        between = f"{row.low}–{row.high}" if row.low else ""
        whisker = _draw_whisker(row) if row.ends else ""
        known = between or ("exact" if row.kind == "exact" else "")
        value = f"{row.number} {row.unit}".strip()
        label = _cut_text(re.split(r",| at | \(", row.label)[0], MOST_LABEL)
        if row.id in LEADING:  # the unit stands beside the name, a line has no room for more
            label, value = f"{label}, GiB", value.removesuffix(" GiB")
        value = value.replace("million", "M")
        rows.append((label, value, known, whisker, row.id))
    lines = columns(rows, right=(1, 2))
    if max(map(_measure_width, lines), default=0) > WIDTH:  # whiskers give way to long numbers
        lines = columns([(*row[:3], row[4]) for row in rows], right=(1, 2))
    if answer.ring:
        lines.append("● predicted, with its interval; ○ at the assumed utilisation")
    return lines


def _draw_whisker(row: Headline) -> str:
    """Draw an interval on the common scale, ``WHISKER`` characters wide."""
    cells = list(" " * WHISKER)
    cells[0] = cells[-1] = "·"

    def at(percent: str) -> int:
        return min(max(round(float(percent) / 100 * (WHISKER - 1)), 0), WHISKER - 1)

    low, high = map(at, row.ends)
    for place in range(low, high + 1):
        cells[place] = "─"
    cells[low] = "←" if row.beyond[0] else "├"
    cells[high] = "→" if row.beyond[1] else "┤"
    if row.limit is not None:
        cells[at(row.limit)] = "│"
    if row.assumed is not None:
        cells[at(row.assumed)] = "○"
    cells[WHISKER // 2] = "●"
    return "".join(cells)


def _draw_memory(bar: Bar | None) -> list[str]:
    """Draw the memory of the fullest device as a bar, its parts below."""
    if bar is None:
        return []
    where = f" ({bar.note.partition(' · ')[0]})" if bar.note.startswith("stage") else ""
    title = f"Memory of the fullest device, GiB{where}"
    fills = [(OF_MEMORY.get(part.label, 4), float(part.width)) for part in bar.segments]
    text = list(_draw_bar(fills))
    high, at = (round(float(x) * BAR / 100) for x in (bar.high, bar.at))
    if bar.between:
        end = round(sum(width for _, width in fills) * BAR / 100)
        text[end : high - 1] = "─" * (high - 1 - end)
        text[min(high, BAR) - 1] = "┤"
    if at <= BAR:
        text[min(at, BAR) - 1] = "│"
    parts = [f"{FILLS[OF_MEMORY.get(p.label, 4)]} {p.label} {p.text}" for p in bar.segments]
    parts.append(f"{bar.free_word.lower()} {bar.free}")
    capacity = f"{bar.total} of {bar.capacity}"
    between = f" ({bar.between})" if bar.between else ""
    return [
        _put_at_ends(title, bar.id),
        "".join(text).rstrip(),
        *_wrap_indented(f"{capacity}{between}: {'  '.join(parts)}", "  ", "  "),
    ]


def _draw_step(bar: Bar | None) -> list[str]:
    """Draw a step as a bar, its parts below."""
    if bar is None:
        return []
    fills = [(OF_STEP.get(p.label, OF_STEP[p.group]), float(p.width)) for p in bar.segments]
    parts = [
        f"{FILLS[OF_STEP.get(p.label, OF_STEP[p.group])]} {p.label} {p.text} ({p.share} %)"
        for p in bar.segments
    ]
    return [
        _put_at_ends(f"{bar.title}, {bar.total}", bar.id),
        _draw_bar(fills),
        *_wrap_indented("  ".join(parts), "  ", "  "),
    ]


def _draw_bar(parts: list[tuple[int, float]]) -> str:
    """Draw a bar from fills and widths in per cent."""
    text, before = "", 0.0
    for fill, width in parts:
        before += width
        text += FILLS[fill] * (round(before * BAR / 100) - len(text))
    return text.ljust(BAR)


def _list_sensitivity(answer: Overview) -> list[str]:
    """Format the sensitivity of training time."""
    rows = answer.moves[:MOST_MOVED]
    said = [f"{row.words[:1].lower()}{row.words[1:]} {row.text}" for row in rows]
    return _wrap_indented(f"Sensitivity of training time: {'; '.join(said)}", "  ") if said else []


def _explain_basis(answer: Overview) -> list[str]:
    """Format the basis of the intervals, and the command that explains the first estimate."""
    lines = _wrap_indented(f"{answer.basis}.", "  ") if answer.basis else []
    ids = [row.id for row in answer.numbers if row.kind != "exact"] or ["parameters.total"]
    asked = "time.mfu" if "time.mfu" in ids else ids[0]
    return [*lines, f"How a number is computed: plan.py explain PLAN {asked}"]


def _list_absent(result: Result) -> list[str]:
    """List quantities that lack an input; not those without a formula under the plan's choices, nor
    those of training if the plan serves."""
    if result.plan.settings["training.mode"] == "inference" or result.plan.reinforced:
        return []
    reasons: dict[str, list[str]] = {}
    for quantity in map(result.__getitem__, LABELS):
        reason = quantity.absent
        if reason is not None and (quantity.chosen is not None or reason == SIZE_ONLY):
            reasons.setdefault(clean(reason), []).append(quantity.id)
    said = [f"– {', '.join(ids)}: {reason}" for reason, ids in reasons.items()]
    return [line for one in said for line in _wrap_indented(one, "  ")]


def _put_at_ends(left: str, right: str) -> str:
    """Put a title and an id at the ends of a line."""
    return f"{left}{' ' * max(WIDTH - _measure_width(left) - len(right), 2)}{right}"


def _wrap_indented(text: str, indent: str, between: str = " ", width: int = WIDTH) -> list[str]:
    """Wrap text to the terminal, with an indent on every line.

    Args:
        text: the text; none gives no lines.
        indent: the start of every line.
        between: where a line may break.
        width: columns of a line.
    """
    lines, line = list[str](), ""
    for word in text.split(between) if text else ():
        more = f"{line}{between}{word}" if line else word
        if _measure_width(indent + more) > width and line:
            lines.append(indent + line)
            line = word
        else:
            line = more
    return [*lines, indent + line] if line else lines


def _measure_width(text: str) -> int:
    """Measure text in columns of a terminal: wide characters are two, combining ones none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _cut_text(text: str, width: int) -> str:
    """Cut text to a width."""
    if _measure_width(text) <= width:
        return text
    while _measure_width(text) > width - 1:
        text = text[:-1]
    return text + "…"
