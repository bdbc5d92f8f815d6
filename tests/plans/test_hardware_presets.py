"""The shipped accelerators and clusters against their schemas, their sources and each other."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from planner.base import resources, units
from planner.base.errors import PlanError
from planner.documents import aliases, json_schema, references, schema, source
from planner.questions import loading
from tests.conftest import read_data

ROOT = Path(__file__).parents[2]
SCHEMAS = {kind: json_schema.read_schema(kind) for kind in ("accelerator", "cluster")}
ACCELERATORS = references.preset_names("accelerator")
CLUSTERS = references.preset_names("cluster")
PRESETS = [("accelerator", n) for n in ACCELERATORS] + [("cluster", n) for n in CLUSTERS]

# Names that plans and scripts outside this repository use.
TABLES = read_data("hardware_presets")
PROMISED = TABLES["promised"]
# The accelerators on which the published runs that we compare with were measured.
MEASURED = TABLES["measured"]

# What says what a document is about; it needs no source.
UNSOURCED = set(TABLES["unsourced"])


def path_of(kind: str, name: str) -> Path:
    return resources.folder("presets") / f"{kind}s" / f"{name}.yaml"


@cache
def document(kind: str, name: str) -> dict[str, Any]:
    """The preset as it is written, what it extends included."""
    return source.load(path_of(kind, name), kind=kind).data


@cache
def facts(kind: str, name: str) -> dict[str, Any]:
    """The preset with its quantities as exact numbers. Raises PlanError for an invalid one."""
    return schema.validate(source.load(path_of(kind, name), kind=kind), kind).data


def dense(peak: dict[str, Any]) -> Fraction:
    return Fraction(peak["value"], 2 if peak["convention"] == "sparse" else 1)


def one_way(link: dict[str, Any]) -> Fraction:
    return Fraction(link["bandwidth"], 2 if link["convention"] == "bidirectional" else 1)


def nodes(part_of: Any, at: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property of a schema file with its place; what only demands keys explains none."""
    for part in ("properties", "definitions"):
        for key, inner in part_of.get(part, {}).items():
            if part == "definitions" and key in ("whole", "parts"):
                continue
            if (part, key) != ("definitions", "keys"):
                yield f"{at}/{part}/{key}", inner
            yield from nodes(inner, f"{at}/{part}/{key}")


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_key_is_explained_to_an_editor(kind: str) -> None:
    Draft7Validator.check_schema(SCHEMAS[kind])
    for place, key in nodes(SCHEMAS[kind]):
        assert key["description"] and key["examples"], place
        if key.get("type") == ["number", "string"]:
            for value in [*key["examples"], *([key["default"]] if "default" in key else [])]:
                assert units.parse(value, key["unit"]) >= key.get("minimum", 0), place


@pytest.mark.parametrize(("kind", "name"), PRESETS)
def test_preset_obeys_its_schema(kind: str, name: str) -> None:
    assert facts(kind, name)["name"]
    first = path_of(kind, name).read_text("utf-8").splitlines()[0]
    assert first == f"# yaml-language-server: $schema=../../schemas/{kind}.schema.json"


@pytest.mark.parametrize(("kind", "name"), PRESETS)
def test_every_fact_has_a_source_and_every_source_a_fact(kind: str, name: str) -> None:
    data = document(kind, name)
    cited = [key for entry in data["sources"] for key in entry["keys"]]
    assert len(cited) == len(set(cited)), "a key with two sources"
    for key in cited:
        inner: Any = data
        for step in key.split("."):
            assert step in inner, f"{key} is not in the document"
            inner = inner[step]
    for key in set(data) - UNSOURCED:
        inside = {entry.partition(".")[2] for entry in cited if entry.startswith(f"{key}.")}
        named = set(data[key]) - {"name"} if isinstance(data[key], dict) else {""}
        assert key in cited or named <= inside, f"no source for {key}"
    assert "price" not in data, "a price is an accelerator's at a provider, not a cluster's"


def test_promised_and_measured_accelerators_ship() -> None:
    assert set(PROMISED) | set(MEASURED) <= set(ACCELERATORS)


# The table of collected figures -------------------------------------------------------------

ROWS = TABLES["rows"]

# Where the table and the source of a preset do not agree, and why the preset has it otherwise.
DIFFERENCES = {(device, key) for device, keys in TABLES["differences"].items() for key in keys}


def table() -> dict[str, dict[str, str]]:
    text = (ROOT / "tests/data/hardware.csv").read_text("utf-8").splitlines()
    rows = csv.DictReader(line for line in text if not line.startswith("#"))
    return {row["accelerator"]: row for row in rows}


def compared(name: str) -> Iterator[tuple[str, Fraction, Fraction, bool]]:
    """Quantity, figure of the preset, figure of the table, whether the source rounds it."""
    ours, row = facts("accelerator", name), table()[ROWS[name]]
    # A vendor's GB may be GiB, which memory_usable settles; here the printed number counts.
    printed = document("accelerator", name)["memory"].split()[0]
    pairs = [
        ("memory", Fraction(printed), "memory_gb", 1),
        ("memory_bandwidth", ours["memory_bandwidth"], "mem_bw_GBps", 10**9),
        (
            "link",
            one_way(ours["link"]) if "link" in ours else None,
            "intra_node_GBps_per_direction",
            10**9,
        ),
        (
            "network",
            ours.get("network", {}).get("bandwidth"),
            "inter_node_Gbps_per_gpu_typical",
            10**9 // 8,
        ),
        ("power", ours.get("power"), "tdp_w", 1),
    ]
    for quantity, figure, column, unit in pairs:
        if figure is not None and row[column]:
            yield quantity, figure, Fraction(row[column]) * unit, False
    for form, peak in ours["peaks"].items():
        if row.get(f"{form}_tflops"):
            # Rates with sparsity and rates with decimals are rounded on the datasheet.
            rounded = peak["convention"] == "sparse" or dense(peak) % 10**12 != 0
            yield form, dense(peak), Fraction(row[f"{form}_tflops"]) * 10**12, rounded


def disagreements(name: str) -> dict[str, str]:
    return {
        quantity: f"{float(ours):.6g}, in the table {float(theirs):.6g}"
        for quantity, ours, theirs, rounded in compared(name)
        if abs(ours - theirs) > (theirs / 400 if rounded else 0)
    }


@pytest.mark.parametrize("name", ROWS)
def test_figures_agree_with_the_table(name: str) -> None:
    known = {quantity for preset, quantity in DIFFERENCES if preset == name}
    found = disagreements(name)
    assert set(found) == known, found


@pytest.mark.parametrize(("name", "reading"), TABLES["readings"].items())
def test_capacity_is_what_programs_got(name: str, reading: float) -> None:
    """Drivers differ by up to 1.5 %; nvidia-smi prints a total that includes what they keep."""
    usable, total = facts("accelerator", name)["memory_usable"], table().get(ROWS.get(name, ""), {})
    assert abs(usable / 2**30 / reading - 1) < 0.015
    assert usable < int(total.get("memory_bytes_usable") or 2**40)


# Figures against physics --------------------------------------------------------------------

# Dense 16-bit operations per multiprocessor and cycle, from the vendors' descriptions of the
# matrix units. They tie three figures together that come from different pages.
PER_CYCLE = TABLES["per_cycle"]
# Chips for graphics have smaller matrix units, and those of GeForce cards and of the L40 half the
# rate where they accumulate in fp32.
SMALLER = dict.fromkeys(TABLES["smaller"], 1024)
GEFORCE = [n for n in ACCELERATORS if "GeForce" in document("accelerator", n)["name"]]
HALVED = ("l20", "l40", *GEFORCE)
CLOCKED = [n for n in ACCELERATORS if "clock" in document("accelerator", n)]


@pytest.mark.parametrize("name", CLOCKED)
def test_peak_is_units_times_clock(name: str) -> None:
    data = facts("accelerator", name)
    per_cycle = 512 if name in HALVED else SMALLER.get(name) or PER_CYCLE[data["architecture"]]
    rate = data["multiprocessors"] * data["clock"] * per_cycle
    printed = dense(data["peaks"]["fp16"])
    assert abs(rate - printed) < printed * Fraction(15, 1000)


@pytest.mark.parametrize("name", ACCELERATORS)
def test_narrower_formats_are_not_slower(name: str) -> None:
    peaks = facts("accelerator", name)["peaks"]
    order = [dense(peaks[k]) for k in ("fp32", "tf32", "bf16", "fp8", "fp6", "fp4") if k in peaks]
    assert order == sorted(order)
    if {"bf16", "fp16"} <= set(peaks):
        assert dense(peaks["fp16"]) / dense(peaks["bf16"]) in (1, 2)  # 2: CDNA 1


@pytest.mark.parametrize("name", CLUSTERS)
def test_nodes_fill_the_cluster(name: str) -> None:
    data = facts("cluster", name)
    assert data["devices"] % data["devices_per_node"] == 0
    joined = data["accelerator"].get("link", {}).get("domain") or data["devices_per_node"]
    assert data["devices_per_node"] <= joined
    assert data["devices"] <= joined or "network" in data


INSTANCES = (ROOT / "tests/data/instances.csv").read_text("utf-8").splitlines()[3:]


@pytest.mark.parametrize("row", INSTANCES)
def test_instances_have_the_gpus_and_the_network_of_their_announcements(row: str) -> None:
    name, gpus, rate = row.split(",")
    data = facts("cluster", aliases.find_preset("cluster", name, CLUSTERS) or name)
    assert data["devices"] == data["devices_per_node"] == int(gpus)
    assert data["network"]["bandwidth"] * int(gpus) * 8 == int(rate) * 10**9


def test_every_name_of_a_node_means_one_node() -> None:
    for name, others in aliases.iter_aliases("cluster"):
        data = facts("cluster", name)
        assert data["devices"] == data["devices_per_node"] and len(others) == len(set(others))
        assert {aliases.find_preset("cluster", other, CLUSTERS) for other in others} == {name}


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    read_data("faults")["hardware"],
)
def test_schema_refuses(kind: str, changes: dict[str, Any], said: str) -> None:
    valid = {"accelerator": "h100-sxm-80gb", "cluster": "h100x1024"}[kind]
    with pytest.raises(PlanError) as error:
        schema.validate(source.load({"extends": valid, **changes}, kind=kind), kind)
    assert said in str(error.value)


# Products as they were measured alone ----------------------------------------------------------


def share(name: str, precision: str, date: str | None = None) -> tuple[Fraction, str]:
    made = loading.load(
        {
            "model": "llama3-8b",
            "cluster": {"accelerator": name, "devices": 8},
            "training": {"precision": precision, **({"kernels": date} if date else {})},
        }
    )
    key = "time.efficiency.matmul"
    return Fraction(made.get(key)), made.defaults[key]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "precision", "rate", "peak"), read_data("hardware_presets")["measured_products"]
)
def test_measured_products_take_the_place_of_an_assumption(
    name: str, precision: str, rate: str, peak: str
) -> None:
    """Bekman, Machine Learning Engineering, maximum achievable matmul FLOPS."""
    found, why = share(name, precision)
    assert float(found) == pytest.approx(float(rate) / float(peak), rel=0.002)
    assert why.startswith("measured: ")
    assert share("l40s", "bf16")[1].startswith("assumed: ")  # of which the table has none


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "date", "slower"),
    [
        ("bf16", "2024-12", Fraction("758.6") / Fraction("794.5")),
        ("fp8", "2024-10", Fraction("1281.7") / Fraction("1402.6")),
        ("fp8", "2020-01", Fraction("1281.7") / Fraction("1402.6")),  # the oldest that is known
        ("fp8", "2025-05", Fraction(1)),
    ],
)
def test_older_kernels_are_as_much_slower_as_they_were_measured(
    precision: str, date: str, slower: Fraction
) -> None:
    """H100, PyTorch 2.5.1 with CUDA 12.4 against 2.7.0 with CUDA 12.6: the same table."""
    newest, _ = share("h100-sxm-80gb", precision)
    assert share("h100-sxm-80gb", precision, date)[0] == newest * slower


@pytest.mark.parametrize(
    ("date", "forward", "backward"),
    [("2022-12", "0.395", "0.8"), ("2023-06", "0.395", "0.8"), ("2023-07", "0.59", "0.86")],
)
def test_a_figure_holds_from_the_date_that_it_states(
    date: str, forward: str, backward: str
) -> None:
    """FlashAttention 2 came out in July 2023 (arXiv 2307.08691); devices that are like an A100 have
    its figures, of which their own take the place."""
    for device in (
        "a100-sxm-40gb",
        {"extends": "a100-sxm-80gb", "efficiency": {"like": "a800-sxm-80gb"}},
    ):
        made = loading.load(
            {
                "model": "llama3-8b",
                "cluster": {"accelerator": device, "devices": 8},
                "training": {"kernels": date},
            }
        )
        found = [made.get(f"time.efficiency.{key}") for key in ("attention", "attention_backward")]
        assert found == [Fraction(forward), Fraction(backward)]


@pytest.mark.parametrize("name", ACCELERATORS)
def test_no_product_was_measured_above_its_peak(name: str) -> None:
    data = facts("accelerator", name)
    for row in data.get("products", ()):
        assert row["rate"] <= dense(data["peaks"][row["format"]])
