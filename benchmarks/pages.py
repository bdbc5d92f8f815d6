"""What stands in README.md and docs/ by program: `python -m benchmarks.pages` writes it.

The formulas by chapter, the number formats, a page for each command from what its parser knows, and
between markers what a terminal shows of the shipped plan. Examples of a command are those of the
other pages, which the tests run.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from benchmarks import book, coming_from, connections, number_formats
from benchmarks.tables import rewritten
from planner.cli.commands import COMMANDS, EVERYWHERE, Argument, Command

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
#: Folders whose files are all made here, so that one which nothing makes any more goes.
MADE = (DOCS / "formulas", DOCS / "commands", DOCS / "coming_from")
#: Pages whose examples are shown, in the order in which they are looked through.
SHOWN = ("quick_start.md", "quick.md", "recipes.md", "layouts.md")
RULE = "| --- | --- |"
#: A line that shows a command, with what stands behind the program's name.
SHOWING = re.compile(r"(?:python plan\.py|trainplan) (.+)")


def pages() -> dict[Path, str]:
    """All pages that are made, or made in part, by where they stand."""
    made = {DOCS / name: text for name, text in book.pages().items()}
    made |= coming_from.pages(DOCS / "coming_from")
    examples = _examples()
    for name, command in COMMANDS.items():
        made[DOCS / "commands" / f"{name}.md"] = _page(name, command, examples.get(name, {}))
    listed = [
        f"| [{name}](commands/{name}.md) | {command.help} |" for name, command in COMMANDS.items()
    ]
    index = _kept(DOCS / "commands.md") or ""
    index = rewritten(index, "\n".join(["| command | does |", RULE, *listed]), "commands")
    made[DOCS / "commands.md"] = rewritten(index, _table(_actions(EVERYWHERE), "option"), "options")
    made[DOCS / "connections.md"] = connections.page(_kept(DOCS / "connections.md") or "")
    made[DOCS / "precisions.md"] = number_formats.page()
    for page in (ROOT / "README.md", DOCS / "quick_start.md"):
        made[page] = _with_output(page.read_text("utf-8"))
    return made


def stale(made: Mapping[Path, str]) -> list[Path]:
    """The pages that do not stand as they are made, and those that nothing makes."""
    moved = [path for path, text in made.items() if _kept(path) != text]
    return moved + [path for folder in MADE for path in folder.glob("*.md") if path not in made]


def _kept(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


def _with_output(page: str) -> str:
    """The page, each block between markers `output: COMMAND` as the command prints it."""
    for said in re.findall(r"<!-- output: (.*): begin -->", page):
        done = subprocess.run(
            [sys.executable, *said.split()[1:]],
            cwd=ROOT,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        page = rewritten(page, f"\n```text\n$ {said}\n{done.stdout}```\n", f"output: {said}")
    return page


def _examples() -> dict[str, dict[str, str]]:
    """By command the lines that pages show of it, each with a link to where."""
    found: dict[str, dict[str, str]] = {}
    for page in SHOWN:
        title, fence = "", ""
        for line in (DOCS / page).read_text("utf-8").splitlines():
            if line.startswith("```"):
                fence = "" if fence else line
            elif line.startswith("#") and not fence:
                title = line.lstrip("# ")
            elif fence == "```sh" and (shown := SHOWING.match(line)):
                word = shown[1].split()[0]
                anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
                text = f"python plan.py {shown[1].partition(' # ')[0].strip()}"
                of = found.setdefault(word if word in COMMANDS else "report", {})
                of.setdefault(text, f"[{title}](../{page}#{anchor})")
    return found


def _actions(arguments: Iterable[Argument]) -> list[argparse.Action]:
    parser = argparse.ArgumentParser(add_help=False)
    return [parser.add_argument(*names, **how) for names, how in arguments]


def _page(name: str, command: Command, examples: dict[str, str]) -> str:
    own = _actions(command.arguments)
    lines = [f"# {name}", "", f"{command.help[:1].upper()}{command.help[1:]}.", ""]
    lines += ["```text", f"plan.py {' '.join(_usage(own, name))}", "```", ""]
    lines += [_table(own, "argument"), ""]
    lines += ["Options of every command and exit statuses: [commands](../commands.md).", ""]
    if examples:
        lines += ["## Examples", ""]
        for where in dict.fromkeys(examples.values()):
            texts = [text for text, at in examples.items() if at == where]
            lines += [f"{where}:", "", "```sh", *texts, "```", ""]
    return "\n".join(lines)


def _usage(actions: list[argparse.Action], name: str) -> Iterator[str]:
    if name != "report":
        yield name
    for each in sorted(actions, key=lambda each: bool(each.option_strings)):
        if each.option_strings and not each.required:
            continue
        word = _value(each)
        word = f"{each.option_strings[0]} {word}" if each.option_strings else word
        word += "…" if each.nargs in ("*", "+") else ""
        yield f"[{word}]" if each.nargs in ("*", "?") else word
    yield "[options]"


def _value(action: argparse.Action) -> str:
    """What stands for the value of an argument; of none, nothing."""
    if action.nargs == 0:
        return ""
    metavar = action.metavar if isinstance(action.metavar, str) else None
    return metavar or "|".join(map(str, action.choices or [action.dest.upper()]))


def _table(actions: Iterable[argparse.Action], called: str) -> str:
    return "\n".join([f"| {called} | meaning |", RULE, *map(_row, actions)])


def _row(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings)
    called = f"{names} {_value(action)}".strip() if names else _value(action)
    said = (action.help or "").replace("%%", "%")
    said += "; required" if action.option_strings and action.required else ""
    said += f"; {action.default} by default" if action.choices and action.default else ""
    return "| `{}` | {} |".format(*(text.replace("|", "\\|") for text in (called, said)))


def main() -> None:
    made = pages()
    for path in stale(made):
        if path in made:
            path.parent.mkdir(exist_ok=True)
            path.write_text(made[path], "utf-8")
        else:
            path.unlink()
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
