"""A hook of mkdocs: formulas as MathML, which browsers draw without a script, and the files of the
repository that pages link to, examples and data, as part of the site."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
#: A link out of the folder of pages.
LINK = re.compile(r"\]\(((?:\.\./)+)([^)#]+)")


def on_files(files: Any, *, config: Any) -> Any:
    found = {path for page in files.documentation_pages() for _, path in _outside(page)}
    for path in sorted(found):
        files.append(File.generated(config, _place(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    for whole, path in _outside(page.file):
        markdown = markdown.replace(f"]({whole}", f"]({_up(page.file)}{_place(path)}")
    if page.file.src_uri.startswith("formulas/"):
        sys.path.insert(0, str(ROOT))  # the script mkdocs does not look here
        from benchmarks.book import pages

        return pages(mathml=True)[page.file.src_uri]
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    return html.replace("\\|", "|")  # a bar in code in a table, which GitHub wants escaped


def _place(path: str) -> str:
    """Where a file of the repository lies in the site; Markdown as it is written."""
    return f"repository/{path}" + (".txt" if path.endswith(".md") else "")


def _up(file: Any) -> str:
    return "../" * file.src_uri.count("/")


def _outside(file: Any) -> list[tuple[str, str]]:
    """Links of a page to files outside of the pages: as written, and from the repository's top."""
    up = _up(file) + "../"
    found = LINK.findall((ROOT / "docs" / file.src_uri).read_text("utf-8"))
    return [(dots + path, path) for dots, path in found if dots == up and (ROOT / path).is_file()]
