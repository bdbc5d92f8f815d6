"""Tables of agreement: how far predictions are off, by source, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

Record = Mapping[str, Any]
Lines = Sequence[Sequence[str]]


def judged(records: Iterable[Record]) -> list[Record]:
    """The records that count: one value of each run."""
    return [record for record in records if "error" in record and record.get("judged", True)]


def grouped(records: Iterable[Record], key: str = "group") -> dict[str, list[Record]]:
    """Records by heading, as they first come."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record[key], []).append(record)
    return found


def spread(errors: Sequence[float]) -> list[float]:
    """Mean, median, 90th percentile and worst of the size, and the mean of the signed error."""
    size = sorted(map(abs, errors))
    count = len(size)
    ninth = size[min(count - 1, int(0.9 * count))]
    return [fmean(size), median(size), ninth, size[-1], fmean(errors)]


def covered(records: Iterable[Record]) -> list[bool]:
    """Whether each measured value lies in the interval of its prediction."""
    return [
        record["interval"][0] <= record["expected"] <= record["interval"][1]
        for record in records
        if "interval" in record
    ]


def text(lines: Lines) -> str:
    """A table for a terminal."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def markdown(lines: Lines) -> str:
    """A table for a page, all columns but the first to the right."""
    head, *body = lines
    rule = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *body))


def rewritten(page: str, text: str, name: str) -> str:
    """The page with the text between the markers of that name."""
    begin, end = (f"<!-- {name}: {side} -->" for side in ("begin", "end"))
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}"


def rewrite(page: Path, texts: Mapping[str, str]) -> None:
    """Rewrite what stands between the markers of a page."""
    written = page.read_text("utf-8")
    for name, text_ in texts.items():
        written = rewritten(written, text_, name)
    page.write_text(written, "utf-8")
