"""Launch files of trainers of the Hugging Face stack, read as plans.

Most of their options change nothing in a plan: so what the plan would say again is held against
what the file said. An option that comes out otherwise is refused, one that no row knows is told by
its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

from planner.base.display import one_line
from planner.base.errors import Place, PlanError
from planner.connect.exports import VARIABLES, Framework
from planner.connect.exports.rules import Row, walk_rows
from planner.connect.imports.bases import flatten_options
from planner.documents import source, yaml_nodes
from planner.plans.layout import ROW

ENVIRONMENT = re.compile(r"^# Environment: (.{1,2000})$", re.MULTILINE)
NO_MODEL = "--set model=NAME, one that ships or a file"


class Options(dict[str, Any]):
    """The options of a trainer's file, with the framework's defaults where it has none.

    Attributes:
        known: the framework.
        given: options that the file itself has, without those left to the trainer.
        open: options that it leaves to the trainer ("auto").
        dense: the option that takes dense layers by their paths, which leave out experts.
    """

    dense = ""

    def __init__(
        self, tree: Mapping[str, Any], text: str, known: Framework, fixed: Mapping[str, Any] = {}
    ) -> None:
        self.known, found = known, flatten_options(tree)
        told = ENVIRONMENT.search(text)
        pairs = (each.partition("=") for each in told[1].split()) if told else ()
        variables = {f"{VARIABLES}{name}": value for name, _, value in pairs}
        self.given = dict(self._rename_options({**found, **variables}))
        self.given |= dict(split_parts(self.given, known.parts))
        self.open = [
            key
            for key, value in self.given.items()
            if is_same(value, "auto") and not self.is_ignored(key)
        ]
        for key, members in known.members.items():
            if isinstance(listed := self.given.get(key), list):
                self.given[key] = [one for one in listed if one not in members] or None
        self.given = {
            k: v for k, v in self.given.items() if v is not None and not is_same(v, "auto")
        }
        # What another file decides is as if this one did, in the words of its row.
        chosen: dict[str, Any] = {}
        for row in walk_rows(known.rows, fixed):
            key, about = next(iter(row.items()))
            if key in fixed and key in known.refused.values() and isinstance(about, Mapping):
                word = about.get("words", {}).get(fixed[key])
                chosen |= word if isinstance(word, Mapping) else {}
        super().__init__({**known.defaults, **chosen, **self.given})
        for rule in known.also:
            if all(is_same(self.get(key), value) for key, value in rule["when"].items()):
                self._replace_words(rule["when"], rule["means"])
                for key, more in rule.get("adds", {}).items():
                    listed = self.get(key, [])
                    self[key] = self.given[key] = [
                        *(listed if isinstance(listed, list) else ()),
                        *more,
                    ]
        for key in [key for key, value in self.given.items() if is_same(value, "auto")]:
            del self[key], self.given[key]
            self.open.append(key)

    def _rename_options(self, found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield options by the names that rows write."""
        for key, value in found.items():
            key = rename_option(self.known, key)
            digits = key.startswith(VARIABLES) and re.fullmatch(r"[0-9]{1,9}", str(value))
            yield key, int(value) if digits else value

    def _replace_words(self, when: Mapping[str, Any], means: Mapping[str, Any]) -> None:
        """Replace what is said in other words by those of rows; null takes an option away."""
        for held in (self, self.given):
            mine = any(key in held for key in when)
            for key in when:
                held.pop(key, None)
            held |= {k: v for k, v in means.items() if v is not None and (held is self or mine)}
            for key in (key for key, value in means.items() if value is None):
                held.pop(key, None)

    def is_left_out(self, key: str, value: Any, options: Iterable[str]) -> bool:
        """Check whether a key is better left out: its options are left to the trainer, or none of
        them is there and it divides nothing or does not happen.

        Args:
            key: the key of a plan.
            value: its value.
            options: the options that say it.
        """
        options = set(options)
        if not options.isdisjoint(self.given):
            return False
        quiet = value in (False, 0, "train", "1f1b", "separate") or (
            key in ROW and not ROW[key].like and value == ROW[key].neutral
        )
        of_defaults = not options.isdisjoint(self)
        return not of_defaults and (quiet or not options.isdisjoint(self.open))

    def is_ignored(self, option: str) -> bool:
        """Check whether an option changes nothing in a plan."""
        return any(re.match(pattern, option) for pattern in self.known.besides)


def rename_option(known: Framework, option: str) -> str:
    """Return the name by which the rows of a framework write an option."""
    for pattern, name in known.renamed.items():
        option = re.sub(f"^(?:{pattern})$", name, option)
    return option


def split_parts(options: Mapping[str, Any], parts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the parts of values, as of `1000ba` the number of steps, by the pattern of each."""
    for option, pattern in parts.items():
        found = re.fullmatch(pattern, str(options.get(option))[:200])
        for name, part in found.groupdict().items() if found else ():
            if part:
                yield f"{option}.{name}", part


def is_same(given: Any, option: Any) -> bool:
    """Compare what a file says with an option's value, however it is written: numbers of a file
    are exact, items of a list stand one behind another, or have commas between."""
    if isinstance(option, list) and isinstance(given, str):
        return [str(one) for one in option] == re.split(r"[,\s]+", given.strip())
    if isinstance(given, Fraction) and isinstance(option, float):
        return given == Fraction(str(option))
    return given == option or (given is not None and str(given) == str(option))


def derive_sizes(
    options: Options, keys: dict[str, Any], rows: Sequence[Row], told: int | None
) -> dict[str, Any]:
    """Derive the keys that follow: devices and data-parallel size, batches, tokens.

    Args:
        options: what the file says.
        keys: the keys that it gives.
        rows: the rows of its framework.
        told: the processes, where a file's comments say them.

    Returns:
        The keys with these.
    """
    quotients = [row for row in rows if row.get("rule") == "quotient" and row["to"] in options]

    def whole(key: str) -> int:
        """Return a size, 0 where unknown; copies of the shards are one unless said."""
        return _read_count(keys.get(key, 1 if key == "parallelism.replicate" else 0))

    def multiply_sizes(key: str) -> int:
        """Multiply a quotient that a file says by its divisors; 0 where unknown."""
        rows_of = (row for row in quotients if row["of"] == key)
        found = (prod([_read_count(options[row["to"]]), *map(whole, row["by"])]) for row in rows_of)
        return max(found, default=0)

    degrees = (whole(f"parallelism.{one}") or 1 for one in ("tensor", "context", "pipeline"))
    one_each = prod(degrees)
    batch, micro, steps = (
        whole(f"training.{one}") for one in ("global_batch", "micro_batch", "gradient_accumulation")
    )
    data = multiply_sizes("parallelism.data") or (batch // (micro * steps) if micro * steps else 0)
    devices = (
        whole("cluster.devices") or told or one_each * (data or whole("parallelism.replicate"))
    )
    least = next((row for row in rows if row.get("rule") == "at_least"), None)
    if least and not (batch or steps) and micro:
        devices = devices or one_each
        steps = max(1, -(-least["least"] // (_read_count(options[least["of"]]) * devices)))
    if not batch and micro * steps:
        keys["training.global_batch"] = micro * steps * (devices // one_each)
    keys["cluster.devices"] = devices
    if keys.get("training.tokens") is None and multiply_sizes("training.tokens"):
        keys["training.tokens"] = multiply_sizes("training.tokens")
    for row in rows:
        if row.get("rule") == "squared" and row["to"] in options.open and "model" in keys:
            keys[row["of"]] = source.load(keys["model"], kind="model").data["hidden"] ** 2
            options.open.remove(row["to"])
    for row in quotients:
        nodes = _read_count(options[row["to"]])
        if row["of"] == "cluster.devices" and nodes:
            keys.setdefault(row["by"][0], -(-devices // nodes))
    if "training.global_batch" in keys:  # said apart, so that the batch is checked against it
        keys.pop("training.gradient_accumulation", None)
    return keys


def _read_count(value: Any) -> int:
    """Return a number of things that a file says, else 0."""
    return value if isinstance(value, int) and value > 0 else 0


def parse_changes(changes: Sequence[str]) -> dict[str, Any]:
    """Parse the keys of ``--set KEY=VALUE``.

    Raises:
        PlanError: no such pair.
    """
    found = {}
    for each in changes:
        key, equals, value = each.partition("=")
        place = Place(f"--set {one_line(each)}"[:200])
        if not equals or not re.fullmatch(r"[a-z_0-9]+(\.[a-z_0-9]+)*", key):
            raise PlanError(f"'{one_line(key)}' is not a key", place, "--set a.b=value")
        found[key] = yaml_nodes.parse_plain(value, place.file)
    return found
