"""Command lines at random, from what the parser of each command takes; a new option is tried by
itself. Files are written into one folder only."""

from __future__ import annotations

import argparse
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from random import Random

from fuzz import documents

ROOT = documents.ROOT
PLANS = ("gpt2small_hgx-h100", "llama70b_h100x1024", "mixtral8x7b_h100x1024")
#: Not tried: what reads all of the checkout; where it can, what runs benchmarks for a minute.
LEFT_OUT = ("check", *(["measure"] if find_spec("torch") else []))
#: Options not tried: what begins processes elsewhere.
FOREIGN = ("on",)
#: What works for longer than two seconds by its nature, in seconds of processor time.
PATIENCE = {"solve": 20.0, "search": 20.0, "sweep": 20.0}
RELATIONS = ("<=", ">=", "<", "=", "", "<=>=", " <= ")
ENDINGS = (".md", ".html", ".json", ".txt", ".csv", ".parquet", ".yaml", "", ".MD", ".x")
#: Options that are always there: one process only.
ALWAYS = {"workers": ("1",) * 8 + ("0", "-1", "x")}
LIMITS = ("70 GiB", "30 days", "0", "-1", "1e30", "0.5", "10 USD", "3 GB/s", "80 GB", "1e400 s")


def scalar(random: Random) -> str:
    """One hostile or plausible scalar, as written."""
    return random.choice((*documents.SCALARS, str(random.randint(-2, 2 ** random.randint(0, 40)))))


@cache
def commands() -> dict[str, tuple[argparse.Action, ...]]:
    """The actions of each command but its help."""
    from planner.cli.commands import COMMANDS

    found = {}
    for name, command in COMMANDS.items():
        parser = argparse.ArgumentParser()
        command.add_args(parser)
        actions = [a for a in parser._actions if not isinstance(a, argparse._HelpAction)]
        found[name] = tuple(actions)
    return found


@cache
def quantities() -> tuple[str, ...]:
    from planner.book import formulas
    from planner.book.quantity import BOOK

    assert formulas
    return tuple(BOOK.quantities)


def line(random: Random, folder: Path) -> list[str]:
    """One command line; the documents it names lie in the folder or among the presets."""
    name = random.choice([name for name in commands() if name not in LEFT_OUT])
    said: list[list[str]] = []
    for action in commands()[name]:
        flags = action.option_strings
        likely = 0.95 if not flags or action.required else 1 if action.dest in ALWAYS else 0.25
        if random.random() > likely or action.dest in FOREIGN:
            continue
        times = random.choice((1, 1, 2)) if isinstance(action, argparse._AppendAction) else 1
        for _ in range(times):
            words = [] if action.nargs == 0 else [value(random, action, folder)]
            said.append([flags[-1], *words] if flags else words)
    random.shuffle(said)
    words = [word for part in said for word in part]
    if random.random() < 0.05:
        words.append(scalar(random))  # at the end: no file is written under that name
    return [name, *words]


def value(random: Random, action: argparse.Action, folder: Path) -> str:
    """One value of an option, mostly of the right form."""
    if action.dest == "output":
        return str(folder / f"out{random.choice(ENDINGS)}")
    if action.dest in ALWAYS:
        return random.choice(ALWAYS[action.dest])
    if random.random() < 0.06:
        return scalar(random)
    if action.choices:
        return str(random.choice(list(action.choices)))
    if action.type in (int, float):
        return random.choice(("0", "1", "3", "10", "-1", "1000", scalar(random)))
    about = str(action.metavar)
    if "KEY=VALUE" in about:
        return override(random, "study" if "study" in str(action.help) else "plan")
    if "<=" in about:
        limit = random.choice((*LIMITS, scalar(random)))
        return random.choice(quantities()) + random.choice(RELATIONS) + limit
    if "KEY" in about:
        return ".".join(random.choice(documents.keys("plan"))[0])
    if "QUANTITY" in about:
        return random.choice(quantities())
    if "TIME" in about:
        return random.choice(("30 days", "1 h", "1e9 days", *LIMITS))
    if "QUESTION" in about:
        from planner.questions.solve.questions import QUESTIONS

        return random.choice(list(QUESTIONS))
    if action.dest == "log":
        return document(random, "log", folder, "run")
    kind = next((kind for word, kind in KINDS.items() if word in about.upper()), None)
    if kind == "preset":
        return _preset(random)
    return document(random, kind or "plan", folder, action.dest)


KINDS = {
    "STUDY": "study", "PLAN": "plan", "CONFIG": "config", "MODEL": "preset", "NAME": "preset",
    "ACCELERATOR": "preset",
}  # fmt: skip


def override(random: Random, kind: str = "plan") -> str:
    """A `--set` of some key."""
    path, said = random.choice(documents.keys(kind))
    strategy = documents.values(said) if random.random() < 0.7 else documents.scalars
    text = documents.draw_one(strategy, random.random())
    return f"{'.'.join(path)}={text}"


def document(random: Random, kind: str, folder: Path, name: str) -> str:
    """A shipped plan, or a document of a kind in the folder, mutated or as it was."""
    if kind == "plan" and random.random() < 0.75:
        return str(ROOT / "presets" / f"{random.choice(PLANS)}.yaml")
    file = folder / f"{name}.{'json' if kind == 'config' else 'yaml'}"
    texts = documents.texts(kind)
    whole = random.random() < 0.5 and texts
    file.write_bytes(
        random.choice(texts).encode()
        if whole
        else documents.draw_one(documents.documents(kind), random.random()) or b""
    )
    return str(file)


def _preset(random: Random) -> str:
    names = [path.stem for path in (ROOT / "presets").glob("*/*.yaml")]
    text = random.choice(sorted(names))
    return random.choice((text, f"{text}=2", f"{text},{text}", f"{text}=-1 USD/h"))
