"""Documents: strict YAML with places, extends, names, overrides, origins."""

from __future__ import annotations

import io
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.base import units
from planner.base.errors import Fault, Place, PlanError
from planner.documents.references import preset_names, read_document
from planner.documents.source import Document, load
from planner.documents.yaml_nodes import parse_yaml
from tests.conftest import read_data

FAULTS = read_data("faults")

F = Fraction


def data(text: str) -> Any:
    node = parse_yaml(text, "x.yaml")
    assert node is not None
    return node.plain()


def faults(text: str) -> list[str]:
    with pytest.raises(PlanError) as caught:
        parse_yaml(text, "x.yaml")
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e9", 10**9),
        ("1.0e9", 10**9),
        ("989.4e12", 989_400_000_000_000),
        ("0.1", F(1, 10)),
        ("-.5", F(-1, 2)),
        ("5.", 5),
        ("+7", 7),
        ("0", 0),
        ("0.0", 0),
        ("-0", 0),
        ("0x1F", 31),
        ("0o17", 15),
        ("1e-3", F(1, 1000)),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("no", "no"),
        ("off", "off"),
        ("yes", "yes"),
        ("y", "y"),
        ("10:30", "10:30"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        ("80 GB", "80 GB"),
        ("1.2.3", "1.2.3"),
        ("'1e9'", "1e9"),
        ('"017"', "017"),
        ("'null'", "null"),
        ("e5", "e5"),
        (".", "."),
        ("-", None),
        ("nan", "nan"),
        ("infinity", "infinity"),
        ("1e", "1e"),
        ("12e03", 12000),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: Any) -> None:
    found = data(f"a: {text}") if text != "-" else {"a": data("a:\n  -")["a"][0]}
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    FAULTS["yaml"],
)
def test_strictness(text: str, expected: str) -> None:
    assert faults(text) == [expected]


@pytest.mark.parametrize("text", [*FAULTS["broken_yaml"], "a: \ud800"])
def test_broken_yaml_is_one_line_with_a_place(text: str) -> None:
    (only,) = faults(text)
    assert only.startswith("x.yaml:") or only.startswith("x.yaml: ")
    assert "\n" not in only


@pytest.mark.parametrize("character", ["\x07", "\x00", "\ud800"])
def test_the_place_of_a_forbidden_character_counts_characters(character: str) -> None:
    (only,) = faults(f"a: 1\nb: éé€{character}")
    assert only == "x.yaml:2:7: a character that YAML does not allow"


def test_all_faults_of_a_file_at_once_in_order() -> None:
    found = faults("b: 017\na: 1\na: .inf\n2: x")
    assert [line.split(": ")[0] for line in found] == [
        "x.yaml:1:4",
        "x.yaml:3:1",
        "x.yaml:3:4",
        "x.yaml:4:1",
    ]


def test_bounded() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
    )
    assert "the document is too large" in faults(bomb)[-1]
    assert "nested too deeply" in faults("a: " + "[" * 100_000)[-1]
    assert "nested too deeply" in faults("{a: " * 5_000)[-1]
    assert data("a: " + "[" * 99 + "]" * 99)["a"] is not None


def test_anchors_may_be_shared() -> None:
    assert data("a: &x {b: 1}\nc: *x\nd: [*x]") == {"a": {"b": 1}, "c": {"b": 1}, "d": [{"b": 1}]}


@given(st.text(max_size=80))
def test_any_text_is_data_or_a_fault(text: str) -> None:
    try:
        parse_yaml(text, "x.yaml")
    except PlanError as error:
        assert error.faults
        assert all("\n" not in str(fault) for fault in error.faults)


# Files -------------------------------------------------------------------------------------


@pytest.fixture
def presets(tmp_path: Path) -> Path:
    """A small presets folder."""
    root = tmp_path / "presets"
    for path, text in {
        "models/small.yaml": "name: Small\nlayers: 2\nattention: {heads: 4, window: 8}\n",
        "models/large.yaml": "extends: small\nlayers: 20\n",
        "accelerators/chip.yaml": "memory: 80 GB\npower: 700 W\n",
        "clusters/eight.yaml": "accelerator: chip\ndevices: 8\n",
        "base.yaml": "model: small\ncluster: eight\ntraining: {tokens: 1B, batch: 8}\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def write(folder: Path, text: str, name: str = "plan.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def fault(path: Any, *overrides: str, presets: Path | None = None) -> Fault:
    with pytest.raises(PlanError) as caught:
        load(path, overrides, presets=presets)
    (only,) = caught.value.faults
    return only


def test_files_that_are_no_documents(tmp_path: Path) -> None:
    assert fault(tmp_path).message == "this is a folder"
    write(tmp_path, "a: 1")
    missing = fault(tmp_path / "plam.yaml")
    assert missing.message == "no such file"
    assert missing.hint == str(tmp_path / "plan.yaml")
    assert fault(write(tmp_path, "", "e.yaml")).message == "the document is empty"
    assert fault(write(tmp_path, "# only\n", "c.yaml")).message == "the document is empty"
    assert fault(write(tmp_path, "- a\n", "l.yaml")).message == "the document is a list"
    assert fault(write(tmp_path, "80 GB", "s.yaml")).message == "the document is a single value"
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: caf\xe9\n")
    assert str(fault(tmp_path / "latin.yaml").place).endswith("latin.yaml:2:7")
    (tmp_path / "big.yaml").write_bytes(b"#" * 5_000_001)
    assert fault(tmp_path / "big.yaml").message == "the file is too large"
    assert "cannot be read" in fault("a\0b").message


def test_a_byte_order_mark_and_crlf_are_fine(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert read_document(tmp_path / "w.yaml").plain() == {"a": 1, "b": 2}


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"name: x\ntokens: 017\n")

    monkeypatch.setattr("sys.stdin", Stdin)
    assert str(fault("-")).startswith("<stdin>:2:9: the number 017")


def test_names_become_what_they_stand_for(tmp_path: Path, presets: Path) -> None:
    path = write(tmp_path, "model: large\ncluster: {extends: eight, devices: 16}\n")
    document = load(path, presets=presets)
    assert document.data == {
        "model": {"name": "Small", "layers": 20, "attention": {"heads": 4, "window": 8}},
        "cluster": {"accelerator": {"memory": "80 GB", "power": "700 W"}, "devices": 16},
    }
    assert document.find_node(("model",)).reference == "large"
    assert document.find_node(("cluster",)).reference == "eight"
    assert document.find_node(("cluster", "accelerator")).reference == "chip"
    assert document.find_origin(("model", "layers")).text == "preset large"
    assert document.find_origin(("model", "name")).text == "preset small"
    assert document.find_origin(("cluster", "devices")).text == "plan.yaml:2"
    assert document.find_origin(("cluster", "accelerator", "memory")).kind == "preset"
    assert document.find_place(("cluster", "devices")) == Place(str(path), 2, 36)
    assert document.find_key_place(("cluster", "devices")) == Place(str(path), 2, 27)
    assert document.find_key_place(("model",)) == Place(str(path), 1, 1)
    # An absent value is placed at what surrounds it.
    assert document.find_place(("cluster", "price")) == document.find_place(("cluster",))
    assert not document.has_value(("cluster", "price"))


def test_paths_come_before_presets(tmp_path: Path, presets: Path) -> None:
    write(tmp_path, "layers: 7", "small.yaml")
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub", "layers: 8", "m.yaml")
    layers = [
        load(write(tmp_path, f"model: {name}"), presets=presets).data["model"]["layers"]
        for name in ("small", "./small.yaml", "sub/m", "large", "small.yaml")
    ]
    assert layers == [7, 7, 8, 20, 7]


def test_a_file_may_extend_the_preset_of_its_own_name(tmp_path: Path, presets: Path) -> None:
    path = write(tmp_path, "extends: small\nlayers: 3", "small.yaml")
    assert load(path, kind="model", presets=presets).data["name"] == "Small"


def test_extends_merges_mappings_replaces_lists_and_removes_nulls(tmp_path: Path) -> None:
    write(tmp_path, "a: {x: 1, y: {p: 1, q: 2}}\nl: [1, 2]\ngone: 5\n", "parent.yaml")
    path = write(tmp_path, "extends: parent\na: {y: {q: 3}, z: 4}\nl: [9]\ngone: null\n")
    document = load(path)
    assert document.data == {"a": {"x": 1, "y": {"p": 1, "q": 3}, "z": 4}, "l": [9]}
    assert document.find_place(("a", "x")).file.endswith("parent.yaml")
    assert document.find_origin(("a", "y", "q")).text == "plan.yaml:2"


def test_a_plan_may_change_keys_of_its_parents_model(tmp_path: Path, presets: Path) -> None:
    path = write(tmp_path, "extends: base\nmodel: {layers: 5}\ntraining: {tokens: 2B}\n")
    found = load(path, presets=presets).data
    assert found["model"] == {"name": "Small", "layers": 5, "attention": {"heads": 4, "window": 8}}
    assert found["training"] == {"tokens": "2B", "batch": 8}
    path = write(tmp_path, "extends: base\nmodel: {extends: large}\n")
    assert load(path, presets=presets).data["model"]["layers"] == 20


def test_extends_in_a_circle_names_the_chain(tmp_path: Path) -> None:
    write(tmp_path, "extends: b", "a.yaml")
    write(tmp_path, "extends: c", "b.yaml")
    write(tmp_path, "x: 1\nextends: a", "c.yaml")
    found = fault(tmp_path / "a.yaml")
    assert found.message == "extends is circular: a -> b -> c -> a"
    assert str(found.place).endswith("c.yaml:2:10")
    assert "self -> self" in fault(write(tmp_path, "extends: self", "self.yaml")).message


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    FAULTS["unknown_names"],
)
def test_unknown_names(
    tmp_path: Path, presets: Path, text: str, message: str, hint: str | None
) -> None:
    found = fault(write(tmp_path, text), presets=presets)
    assert (found.message, found.hint) == (message, hint)
    assert found.place and found.place.line == 1
    assert "\0" not in str(found)


def test_all_unknown_names_at_once(tmp_path: Path, presets: Path) -> None:
    path = write(tmp_path, "cluster: {accelerator: chop}\nmodel: smal\n")
    with pytest.raises(PlanError) as caught:
        load(path, presets=presets)
    assert [fault.hint for fault in caught.value.faults] == ["chip", "small"]


def test_preset_names(presets: Path) -> None:
    assert preset_names("model", presets) == ["large", "small"]
    assert preset_names("plan", presets) == ["base"]


# Overrides ---------------------------------------------------------------------------------


def with_set(presets: Path, *overrides: str) -> Document:
    return load({"extends": "base"}, overrides, presets=presets)


def test_overrides_reach_into_what_is_named(presets: Path) -> None:
    document = with_set(
        presets,
        "model.attention.heads=12",
        "cluster.accelerator.memory=94 GB",
        "training.tokens=2T",
        "new.key=[1, {a: 1e9}]",
    )
    assert document.data["model"]["attention"] == {"heads": 12, "window": 8}
    assert document.data["cluster"]["accelerator"] == {"memory": "94 GB", "power": "700 W"}
    assert document.data["new"] == {"key": [1, {"a": 10**9}]}
    assert document.find_origin(("training", "tokens")).kind == "set"
    assert str(document.find_place(("training", "tokens"))) == "--set training.tokens=2T"
    assert document.find_origin(("training", "batch")).text == "preset base"


def test_overrides_replace_names_and_remove_keys(presets: Path) -> None:
    document = with_set(presets, "model=large", "model.layers=3", "training.batch=null")
    assert document.data["model"]["layers"] == 3
    assert document.find_node(("model",)).reference == "large"
    assert document.data["training"] == {"tokens": "1B"}
    assert with_set(presets, "model={extends: large, name: X}").data["model"]["layers"] == 20


def test_overrides_as_a_mapping_of_values(presets: Path) -> None:
    document = load({"a": {"b": [1, 2]}, "f": 0.1}, {"a.b.1": 5, "c": "2T", "d": 0.5})
    assert document.data == {"a": {"b": [1, 5]}, "f": F(1, 10), "c": "2T", "d": F(1, 2)}
    assert document.find_origin(("f",)).kind == "argument"
    assert str(document.find_place(("f",))) == "<mapping>"


@pytest.mark.parametrize(
    ("override", "message"),
    FAULTS["overrides"],
)
def test_malformed_overrides(presets: Path, override: str, message: str) -> None:
    found = fault({"extends": "base", "list": [1, 2]}, override, presets=presets)
    assert found.message == message
    assert str(found.place) == f"--set {override}"


def test_the_document_itself_is_not_changed(presets: Path) -> None:
    given_ = {"a": {"b": 1}}
    assert load(given_, ["a.b=2"]).data == {"a": {"b": 2}}
    assert given_ == {"a": {"b": 1}}


def test_data_that_was_changed_stays_whatever_else_is_replaced(presets: Path) -> None:
    document = load({"a": {"b": 1}}).change_keys({"a.b": 2})
    assert replace(document, overrides=(("a.c", "3"),)).data == {"a": {"b": 2}}
    assert document.find_origin(("a", "b")) == load({"a": {"b": 1}}).find_origin(("a", "b"))
    assert document.get("a.b") == 2 and document.get("a.b.c") is None


def test_a_name_from_python_may_hold_anything(presets: Path) -> None:
    with pytest.raises(PlanError, match="unknown model"):
        load({"model": "a\0b"}, presets=presets)
    found = fault({}, "model=a\0b", presets=presets)
    assert found.message == "a character that YAML does not allow"
    assert found.place == Place("--set model=a\0b")


@pytest.mark.parametrize("value", [float("nan"), object(), {1: 2}, 10**2000])
def test_mappings_with_what_no_document_holds(value: Any) -> None:
    assert fault({"a": value}).place == Place("<mapping>")


def test_faults_are_sorted_and_told_once() -> None:
    one, two = Fault("x", Place("a", 10, 1)), Fault("y", Place("a", 9, 5))
    error = PlanError([one, two, one])
    assert error.faults == (two, one)
    assert str(error) == "a:9:5: y\na:10:1: x"


@pytest.mark.parametrize("where", ["set", "extends"])
def test_a_device_of_other_memory_reports_the_same_share_of_it(where: str) -> None:
    # So less memory never gains a fit, in whatever place it is said; and what is stated stays.
    for name in preset_names("accelerator"):
        own = load(name, kind="accelerator").get("memory")
        usable = load(name, kind="accelerator").get("memory_usable")
        for size, stated in (("6 GB", None), ("6 GB", "5 GiB"), (own, None)):
            given = {"memory": size} | ({"memory_usable": stated} if stated else {})
            base = (name, given) if where == "set" else ({"extends": name, **given},)
            found = load(*base, kind="accelerator")
            if stated or usable is None:
                assert found.get("memory_usable") == stated
            else:
                share = F(units.parse(usable, "bytes")) / units.parse(own, "bytes")
                least = int(share * units.parse(size, "bytes"))
                assert units.parse(found.get("memory_usable"), "bytes") == least
