"""A hook of mkdocs: the formulas as MathML, which browsers draw without a script."""

from __future__ import annotations

from typing import Any


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    if page.file.src_uri != "formulas.md":
        return markdown
    from planner.report.book import page as book

    return book(mathml=True)
