"""Requests for memory that failed: the errors that programs print (out_of_memory.yaml), and memory
snapshots of PyTorch: what ``torch.cuda.memory._dump_snapshot`` and ``memory_snapshot()`` give, as a
pickle, as JSON or in a page of ``_memory_viz``.

A pickle is a program. Only one whose opcodes all make numbers, text, lists, mappings or tuples of
numbers is loaded: what names a module, calls or refers to something else is refused before.

Of a text, LONGEST bytes of a message are read, and BEFORE it, where the rank may stand; of a
snapshot MAX_SNAPSHOT bytes, MOST_OPCODES of its pickle and MOST_FRAMES of a block.
"""

from __future__ import annotations

import base64
import pickle
import pickletools
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from planner.base import files, resources
from planner.base.errors import Place, PlanError
from planner.base.numbers import exact_text
from planner.connect.logs import MAX_BYTES

ROWS = resources.load_beside(__file__)
LONGEST, BEFORE = 2000, 200
MAX_SNAPSHOT, MOST_OPCODES, MOST_FRAMES = 128 * 10**6, 10**7, 100
ALLOWED = "what torch.cuda.memory._dump_snapshot writes, or memory_snapshot() as JSON"
_PAGE = re.compile(rb'(?s)\s*<.*?"base64": ?"([A-Za-z0-9+/=]+)"')  # of _memory_viz
_SIZE = rf"([0-9]{{1,15}}(?:\.[0-9]{{1,9}})?) ?({'|'.join(ROWS['units'])})\b"
_BEGIN = re.compile("|".join(f"({row['begins']})" for row in ROWS["errors"]).encode())


class Failure(NamedTuple):
    """A request for memory that failed on a device.

    Attributes:
        form: the row of its format: the program, and what is known of it where it is not the
            request of a tensor (``says``).
        place: file and line.
        rank: the process of the run; None where the text does not say.
        device: the index of the device in its node; None likewise.
        sizes: bytes, those that are known: requested; live, reserved and process, each with the
            request; others (other processes), free, capacity.
        rounding: bytes by which the request may differ from the printed one.
        blocks: of a snapshot, those that tensors use: bytes of the tensor, what its frames say that
            it is for, and its innermost frame.
    """

    form: Mapping[str, Any]
    place: Place
    rank: int | None
    device: int | None
    sizes: Mapping[str, Fraction]
    rounding: Fraction = Fraction(0)
    blocks: Sequence[tuple[int, str, str]] = ()


def read_failures(path: str | Path) -> list[Failure]:
    """Read the out-of-memory errors of a log or a pasted text, the first of each rank.

    Args:
        path: of the text; `-` is standard input.

    Returns:
        Those with a size first, in the order of the text.

    Raises:
        PlanError: it cannot be read, or has none.
    """
    text = files.read_bytes(path, MAX_BYTES, allowed="the text of an out-of-memory error")
    failures, line, counted = dict[Any, Failure](), 1, 0
    for begin in _BEGIN.finditer(text):
        start, form = begin.start(), ROWS["errors"][(begin.lastindex or 1) - 1]
        following = _BEGIN.search(text, begin.end(), start + LONGEST)
        message = text[start : following.start() if following else start + LONGEST]
        before = text[max(0, start - BEFORE) : start].rpartition(b"\n")[2]
        line, counted = line + text.count(b"\n", counted, start), start
        words = (part.decode("utf-8", "replace") for part in (before, message))
        failure = read_message(form, Place(str(path), line), *words)
        key = str(failure.sizes) if failure.rank is None else failure.rank
        failures.setdefault((form["program"], failure.device, key), failure)
    if not failures:
        wrong = "no out-of-memory error" if text.strip() else "the text is empty"
        names = ", ".join(dict.fromkeys(row["program"] for row in ROWS["errors"]))
        raise PlanError(wrong, Place(str(path)), f"an error of {names}")
    return sorted(failures.values(), key=lambda one: "requested" not in one.sizes)


def read_message(form: Mapping[str, Any], place: Place, before: str, message: str) -> Failure:
    """Read a message.

    Args:
        form: the row of its format.
        place: where it begins.
        before: what stands before it in its line.
        message: its text, and what follows it.
    """
    printed, rounding = dict[str, list[Fraction]](), Fraction(0)
    for name, pattern in form.get("fields", {}).items():
        spaced = pattern.replace(" ", r"\s+").replace("SIZE", _SIZE)
        pairs = [tuple(filter(None, one.groups())) for one in re.finditer(spaced, message)]
        printed[name] = [Fraction(digits) * ROWS["units"][unit] for digits, unit in pairs]
        for digits, unit in pairs if name == "requested" else ():
            rounding = Fraction(ROWS["units"][unit], 2 * 10 ** len(digits.partition(".")[2]))
    ranks, devices = re.findall(ROWS["rank"], before), re.findall(ROWS["device"], message)
    rank, device = (int(one[0]) if one else None for one in (ranks[-1:], devices))
    return Failure(form, place, rank, device, complete_sizes(printed), rounding)


def complete_sizes(printed: dict[str, list[Fraction]]) -> dict[str, Fraction]:
    """Derive the sizes of a failure from those of its message.

    Args:
        printed: bytes by name, in the order of the message.
    """
    others = printed.pop("others", [])
    sizes = {name: min(several) for name, several in printed.items() if several}
    unallocated = sizes.pop("unallocated", None)
    if unallocated is not None and "live" in sizes:
        sizes["reserved"] = sizes["live"] + unallocated
    own = [one for one in others if one >= sizes.get("reserved", one + 1)]
    if own and "process" not in sizes:  # in a container PyTorch does not find its own number
        sizes["process"] = min(own)
        others.remove(min(own))
    if "reserved" in sizes and sizes.keys() >= {"capacity", "free"}:
        used = sizes["capacity"] - sizes["free"] - sum(others)
        sizes.setdefault("process", max(used, sizes["reserved"]))
    for name in {"live", "reserved", "process"} & sizes.keys():
        sizes[name] += sizes.get("requested", 0)
    return {**sizes, "others": sum(others, Fraction(0))} if others else sizes


def read_snapshot(path: str | Path) -> Failure:
    """Read the device of a snapshot that ran out of memory, else the one with the largest segment.

    Raises:
        PlanError: the file cannot be read, is cut off or no snapshot, its pickle could run code, or
            nothing is allocated.
    """
    place = Place(str(path))
    raw = files.read_bytes(path, MAX_SNAPSHOT, allowed=ALLOWED)
    page = _PAGE.match(raw)
    try:
        if raw.lstrip()[:1] in (b"{", b"["):
            return _select_device(files.parse_json(raw), place)
        return _select_device(load_plain(base64.b64decode(page[1]) if page else raw), place)
    except Exception as error:  # whatever a damaged pickle or another form raises
        raise PlanError(f"no memory snapshot, or cut off: {error}", place, ALLOWED) from None


def load_plain(raw: bytes) -> Any:
    """Load a pickle of plain data.

    Raises:
        ValueError: it is cut off, is too large, or has more than plain data in it.
    """
    numbers, tuples = frozenset(ROWS["numbers"]), ROWS["tuples"]
    plain, recent = numbers.union(ROWS["plain"], tuples), list[str]()
    for count, (opcode, argument, at) in enumerate(pickletools.genops(raw)):
        name = opcode.name
        nested = name in tuples and not numbers.issuperset(recent[-tuples[name] :])
        if name not in plain or nested or (name.endswith("BINPUT") and int(argument or 0) > count):
            raise ValueError(f"{name} at byte {at} of the pickle is no plain data")
        if count >= MOST_OPCODES:
            most = exact_text(MOST_OPCODES)
            raise ValueError(f"more than {most} values; record with max_entries=100000")
        recent = [*recent[-2:], name]
    return pickle.loads(raw)


def _select_device(tree: Any, place: Place) -> Failure:
    """Select a device of a snapshot; any error says that it has another form."""
    whole = tree if isinstance(tree, dict) else {"segments": tree}
    traces = enumerate(whole.get("device_traces", ()))
    events = [(at, event) for at, trace in traces for event in trace if event["action"] == "oom"]
    segments = [{"device": 0, **segment} for segment in whole["segments"]]
    largest = max(segments, key=lambda one: _read_size(one, "total_size"), default={})
    device, event = events[-1] if events else (_read_size(largest, "device"), {})
    own = [segment for segment in segments if segment["device"] == device]
    blocks = (one for segment in own for one in segment["blocks"])
    used = [one for one in blocks if one["state"] == "active_allocated"]
    names = {"requested": "size", "free": "device_free"} if event else {}
    sizes = {name: Fraction(_read_size(event, key)) for name, key in names.items()}
    wanted = sizes.get("requested", Fraction(0))
    sizes["live"] = wanted + sum(_read_size(one, "size") for one in used)
    sizes["reserved"] = wanted + sum(_read_size(one, "total_size") for one in own)
    return Failure(
        ROWS["errors"][0], place, None, device, sizes, Fraction(0), [*map(_read_block, used)]
    )


def _read_block(tree: Mapping[str, Any]) -> tuple[int, str, str]:
    """Read a block as ``Failure`` has it; until PyTorch 2.0 its history had its frames."""
    last = next(iter(tree.get("history", ())), tree)
    lines = (last.get("frames") or [])[:MOST_FRAMES]
    frames = [":".join((one["filename"], one["name"])) for one in lines]
    text = "\n".join(frames)
    role = next((row for row in ROWS["frames"] if re.search(row["frame"], text)), None)
    inner = [one for one in frames if ".py:" in one]
    inner += [one for one in frames if role and re.search(role["frame"], one)]
    size = _read_size({"requested_size": tree["size"], **tree}, "requested_size")
    return size, role["role"] if role else "", (inner or frames or [""])[0].partition("(")[0]


def _read_size(tree: Mapping[str, Any], key: str) -> int:
    """Read a number of bytes, or an index.

    Raises:
        ValueError: it is none.
    """
    if type(tree[key]) is not int or not 0 <= tree[key] < 2**63:
        raise ValueError(f"{key} is no number of bytes")
    return int(tree[key])
