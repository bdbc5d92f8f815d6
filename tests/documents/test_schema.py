"""Schema faults in our words at their places, exact quantities, defaults with their origin."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator, validators

from planner.base import resources
from planner.base.errors import PlanError
from planner.base.units import find_dimension, parse, parse_number
from planner.documents import json_schema
from planner.documents.schema import describe, validate
from planner.documents.source import Document, load
from tests.conftest import read_data

FAULTS = read_data("faults")

F = Fraction

ENGINE = read_data("documents")["engine_schema"]
CAR = read_data("documents")["car_schema"]
VALID = "wheels: 4\nengine: {power: 100 W}\n"


@pytest.fixture
def schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, made in {"car": CAR, "engine": ENGINE}.items():
        (tmp_path / f"{name}.schema.json").write_text(json.dumps(made))
    shipped = resources.folder
    monkeypatch.setattr(
        resources, "folder", lambda name: tmp_path if name == "schemas" else shipped(name)
    )
    return tmp_path


def check(schemas: Path, text: str, *overrides: str) -> Document:
    path = schemas / "car.yaml"
    path.write_text(text)
    return validate(load(path, overrides, kind="car"), "car")


def told(schemas: Path, text: str, *overrides: str) -> list[str]:
    with pytest.raises(PlanError) as caught:
        check(schemas, text, *overrides)
    return [str(fault).replace(str(schemas / "car.yaml"), "car") for fault in caught.value.faults]


def test_quantities_become_exact_numbers(schemas: Path) -> None:
    found = check(
        schemas,
        "wheels: 4\nengine: {power: 0.7 kW, warmup: 90 min}\nspare: 2\n"
        "pace: 400 Gb/s\ntrips: [{to: home, time: 1.5 h}]\nlabels: {a: 15T, b: 3}\n"
        "layout: {rows: 1k}\nshare: 0.5\n",
    ).data
    assert found["engine"]["power"] == 700
    assert found["engine"]["warmup"] == 5400
    assert found["spare"] == 2
    assert found["pace"] == 50 * 10**9
    assert found["trips"] == [{"to": "home", "time": 5400}]
    assert found["labels"] == {"a": 15 * 10**12, "b": 3}
    assert found["layout"] == {"rows": 1000}
    assert found["share"] == F(1, 2)


def test_no_float_survives(schemas: Path) -> None:
    document = check(schemas, VALID + "share: 0.3\ntank: {size: 0.5}\n")
    values = [node.value for _, node in document.walk_values()]
    assert F(3, 10) in values
    assert F(1, 2) in values
    assert not any(isinstance(value, float) for value in values)


def test_defaults_are_filled_in_and_say_so(schemas: Path) -> None:
    document = check(schemas, VALID + "radio: {}\nlayout: {}\ntrips: [{to: home}]\n")
    assert document.data == read_data("documents")["completed_car"]
    assert document.find_origin(("tank", "size")).kind == "default"
    assert document.find_origin(("engine", "kind")).text == "default"
    assert document.find_origin(("engine", "power")).text == "car.yaml:2"
    assert document.find_place(("engine", "kind")).line == 2
    bare = check(schemas, VALID)
    assert "radio" not in bare.data
    assert bare.data["layout"] == "auto"
    assert type(bare.data["wheels"]) is int


def test_checking_twice_changes_nothing(schemas: Path) -> None:
    once = check(schemas, VALID)
    assert validate(once, "car").data == once.data


@pytest.mark.parametrize(
    ("text", "expected"),
    FAULTS["schema"],
)
def test_faults_in_our_words(schemas: Path, text: str, expected: list[str]) -> None:
    assert told(schemas, VALID + text) == expected


def test_missing_keys_and_faults_in_other_files(schemas: Path) -> None:
    assert told(schemas, "name: x") == [
        "car:1:1: the document has no key 'engine'",
        "car:1:1: the document has no key 'wheels'",
    ]
    assert told(schemas, "wheels: 2\nengine: {warmup: 0, kind: petrol}") == [
        "car:1:9: wheels is 2 (at least 3)",
        "car:2:1: engine has no key 'power'",
        "car:2:18: engine.warmup is 0 s (more than 0 s)",
        "car:2:27: engine.kind is 'petrol' (one of diesel, electric)",
    ]
    assert told(schemas, "wheels: 4\nengine: {power: 1 MW}") == [
        "car:2:17: engine.power is 1000000 W (at least 1, at most 1000 W)"
    ]
    assert told(schemas, "wheels: 1,00\nengine: {power: 7}") == [
        "car:1:9: wheels: '1,00' is not a quantity (a decimal point, or groups of 3 digits; "
        "did you mean '1.00'?)",
        "car:2:17: engine.power: 7 has no unit (a power such as 700 W; did you mean '7 W'?)",
    ]


def test_overrides_are_checked_by_the_same_schema(schemas: Path) -> None:
    assert check(schemas, VALID, "engine.power=200 W").data["engine"]["power"] == 200
    assert told(schemas, VALID, "engine.powr=200 W", "wheels=two") == [
        "--set engine.powr=200 W: unknown key 'powr' in engine "
        "(allowed keys: power, warmup, kind; did you mean 'power'?)",
        "--set wheels=two: wheels: 'two' is not a quantity (a plain number such as 0.4 or 40%)",
    ]


def test_a_mapping_has_no_lines(schemas: Path) -> None:
    with pytest.raises(PlanError, match=r"^<mapping>: wheels is 1 \(at least 3\)$"):
        validate(load({"wheels": 1, "engine": {"power": "1 W"}}, kind="car"), "car")


def test_describe(schemas: Path) -> None:
    def said(path: str) -> Any:
        return describe("car", path)

    assert said("wheels") == read_data("documents")["described_wheels"]
    assert said("engine.power")["unit"] == "W"
    assert said("engine.warmup")["description"] == "a length of time"
    assert said("layout.rows")["default"] == 2
    assert said("trips.0.time")["unit"] == "s"
    assert said("labels.anything")["unit"] == "tokens"
    assert said("share")["maximum"] == F(1, 2)
    assert said("engine.wheels") is None


def test_reading_and_checking_import_nothing_heavy() -> None:
    code = (
        "import sys; from planner.documents import schema; "
        "from planner.documents.source import load; "
        "load({'a': '1 GB'}, ['b=1e9']); "
        "print(sorted({'sympy', 'numpy', 'jinja2', 'jsonschema'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=True,
    )
    assert done.stdout.strip() == "[]"


SHIPPED = sorted((Path(__file__).parents[2] / "schemas").glob("*.schema.json"))


#: What the check of documents knows, and what is no rule.
KNOWN = {*json_schema.RULES, "properties", "patternProperties", "additionalProperties", "items",
         "allOf", "anyOf", "if", "then", "else", "$ref", "definitions",
         "$schema", "$id", "const", "title", "description", "default", "examples"}  # fmt: skip


def rules_of(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and each that stands in it, whatever keys of data are called."""
    if isinstance(schema, dict):
        yield schema
        for keyword in ("properties", "patternProperties", "definitions"):
            for inner in schema.get(keyword, {}).values():
                yield from rules_of(inner)
        for keyword in ("allOf", "anyOf"):
            for inner in schema.get(keyword, ()):
                yield from rules_of(inner)
        for keyword in ("additionalProperties", "items", "not", "if", "then", "else"):
            yield from rules_of(schema.get(keyword))


def keywords(schema: Any) -> Iterator[dict[str, Any]]:
    """Every mapping of a schema, keys and definitions alike."""
    if isinstance(schema, dict):
        yield schema
        for inner in schema.values():
            yield from keywords(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from keywords(inner)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.name)
def test_shipped_schemas_keep_their_own_rules(file: Path) -> None:
    read = json.loads(file.read_text("utf-8"))
    Draft7Validator.check_schema(read)
    for rules in rules_of(read) if file.stem != "result.schema" else ():
        assert rules.keys() <= KNOWN, rules.keys() - KNOWN
    for part in keywords(json_schema.read_schema(file.name.removesuffix(".schema.json"))):
        unit = part.get("unit")
        if not isinstance(unit, str):
            continue
        find_dimension(unit)
        written = [*part.get("examples", ()), *([part["default"]] if "default" in part else [])]
        for value in written:
            if value in part.get("enum", ()) or isinstance(value, dict):
                continue
            read = parse(value, unit)
            assert read >= part.get("minimum", read), (unit, value)
            assert read > part.get("exclusiveMinimum", read - 1), (unit, value)
            assert read <= part.get("maximum", read), (unit, value)


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.fractions(-1, 1)
    | st.text("ab/", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=3,
)


def spoiled(data: st.DataObject, value: Any) -> Any:
    """The same data with a value, a key or an item of it other, more or missing."""
    if not isinstance(value, (dict, list)) or not value or data.draw(st.integers(0, 5)) == 0:
        return data.draw(ANY)
    made = value.copy()
    key = data.draw(st.sampled_from(sorted(made) if isinstance(made, dict) else range(len(made))))
    match data.draw(st.sampled_from(("deeper", "deeper", "deeper", "gone", "more"))):
        case "deeper":
            made[key] = spoiled(data, made[key])
        case "gone":
            del made[key]
        case "more" if isinstance(made, dict):
            made[data.draw(st.sampled_from(("unknown", "layers", "tensor", "on")))] = 1
        case "more":
            made.append(data.draw(st.sampled_from(made)))
    return made


@cache
def shipped(file: Path, kind: str) -> Any:
    return validate(load(file, kind=kind), kind).data


def validator(schema: json_schema.Schema) -> Any:
    """The validator of jsonschema for a schema, exact numbers included."""
    checker = Draft7Validator.TYPE_CHECKER.redefine_many(
        {
            "number": lambda _, value: json_schema.is_number(value),
            "integer": lambda _, value: type(value) is int,
        }
    )
    return validators.extend(Draft7Validator, type_checker=checker)(schema)


def same(schema: json_schema.Schema, value: Any) -> bool:
    """Whether our check of a schema accepts a value where jsonschema does."""
    ours = json_schema.accepts(schema, value)
    return ours is bool(validator(schema).is_valid(value))


PRESETS = Path(__file__).parents[2] / "presets"


@given(st.data())
def test_we_accept_what_jsonschema_accepts(data: st.DataObject) -> None:
    name, file = data.draw(
        st.sampled_from(
            (
                ("plan", PRESETS / "mixtral8x7b_h100x1024.yaml"),
                ("plan", PRESETS / "cs336_70b_h100x1024.yaml"),
                ("model", PRESETS / "models/deepseek-v3.yaml"),
                ("accelerator", PRESETS / "accelerators/h100-sxm-80gb.yaml"),
            )
        )
    )
    made = shipped(file, name)
    for _ in range(data.draw(st.integers(0, 2))):
        made = spoiled(data, made)
    assert same(json_schema.read_schema(name), made)


@pytest.mark.slow
@given(st.data())
def test_so_it_does_for_any_schema(data: st.DataObject) -> None:
    value = st.sampled_from((0, 1, F(1, 2), True, "a", "ab", None))
    simple = st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(("integer", "number", "boolean", ["null", "object"], "array")),
            "enum": st.lists(value, min_size=1, max_size=3),
            "minimum": value.filter(lambda found: type(found) is int),
            "exclusiveMaximum": st.just(1),
            "minLength": st.just(2),
            "pattern": st.just("^a"),
            "maxItems": st.just(1),
            "uniqueItems": st.booleans(),
            "required": st.just(["a"]),
            "minProperties": st.just(1),
        },
    )

    def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        either = inner | st.booleans()
        several = st.lists(inner, min_size=1, max_size=2)
        return st.fixed_dictionaries(
            {},
            optional={
                "properties": st.dictionaries(st.sampled_from("ab"), either, max_size=2),
                "patternProperties": st.dictionaries(st.just("^a"), either, max_size=1),
                "additionalProperties": either,
                "items": either,
                "allOf": several,
                "anyOf": several,
                "not": inner,
                "if": inner,
                "then": inner,
                "else": inner,
            },
        )

    made, found = data.draw(st.recursive(simple, nested, max_leaves=6)), data.draw(ANY)
    read = json.loads(json.dumps(made, default=float), parse_float=parse_number)
    assert same(read, found), made
