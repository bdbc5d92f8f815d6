"""Tables of agreement: how far predictions are off, by source, for a terminal and for a page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

Record = dict[str, Any]
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


def markdown(lines: Lines, end: str = "") -> str:
    """A table for a page, all columns but the first to the right; ``end`` stands below it."""
    head, *body = lines
    rule = ["---", *["--:"] * (len(head) - 1)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *body))
    return f"{table}\n\n{end}" if end else table


def write_rows(file: Path, versions: Mapping[str, str], rows: Mapping[str, Sequence[Any]]) -> None:
    """Write records by heading as JSON, behind the versions they come from, each on its line."""
    texts = [json.dumps(versions)[:-1]]
    for name, each in rows.items():
        lines = ",\n".join(json.dumps(row, sort_keys=True) for row in each)
        texts.append(f'"{name}": [\n{lines}\n]')
    file.write_text(f"{', '.join(texts)}}}\n", "utf-8")


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


def make_parser(doc: str | None, needs: bool = True) -> argparse.ArgumentParser:
    """Make the parser of a comparison: the rows that it reads, and where it writes.

    Args:
        doc: what it compares.
        needs: whether it has nothing to compare without rows.
    """
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument(
        "--runs", type=Path, required=needs, default=[], action="append", help="rows (.jsonl)"
    )
    parser.add_argument("--stacks", type=Path, dest="runs", action="append", help="table of stacks")
    parser.add_argument("--json", type=Path, help="write every comparison to this file")
    parser.add_argument("--markdown", type=Path, help="page whose table is rewritten")
    return parser


def publish(
    options: argparse.Namespace,
    name: str,
    lines: Lines,
    records: Sequence[Record] = (),
    end: str = "",
) -> None:
    """Print a table, and write it to the page and its records to the file that are asked for.

    Args:
        options: as ``make_parser`` reads them.
        name: of the markers in the page.
        lines: the table.
        records: what it sums up.
        end: what stands below it, on the page after an empty line.
    """
    print(text(lines), *filter(None, [end]), sep="\n")
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n", "utf-8")
    if options.markdown:
        rewrite(options.markdown, {name: markdown(lines, end)})
