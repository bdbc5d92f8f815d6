"""What can be trained on a device: each cell is a plan of its own, and what that plan says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.base import resources
from planner.cli import main as cli
from planner.connect import exports, imports
from planner.questions import loading
from planner.questions.fit_table import (
    COST,
    DEVICE_BYTES,
    PROCESS_BYTES,
    RATE,
    evaluate_fit_table,
    write_cell_plans,
)
from planner.report.answer import gib
from planner.report.fit_table import (
    encode_fit_table,
    format_fit_table,
    render_fit_page,
    render_fit_table,
)
from planner.results.result import evaluate_plan
from tests.conftest import read_data


def test_cells_are_what_their_plans_say(tmp_path: Path) -> None:
    table = evaluate_fit_table(
        "t4", 1, ["qwen3-0.6b"], ["1024"], changes=["training.global_batch=8"]
    )
    assert [cell.method for cell in table.cells] == ["full", "LoRA", "QLoRA"]
    assert table.plan.get("training.precision") == "fp16"  # a T4 has no bf16
    written = write_cell_plans(table, str(tmp_path / "plans"))
    assert len(written) == sum(cell.state != "no" for cell in table.cells) == 3
    for cell, file in zip(table.cells, written, strict=True):
        alone = evaluate_plan(loading.load(file))
        assert alone.verdict["state"] == cell.state
        for name in (PROCESS_BYTES, DEVICE_BYTES, RATE):
            assert float(alone[name].value) == pytest.approx(cell.row[name], rel=1e-9)
        hours, soonest, latest = cell.hours
        assert hours == pytest.approx(10_000 * 1024 / float(alone[RATE].value) / 3600)
        assert soonest is not None and latest is not None and soonest < hours < latest
        assert cell.row[COST] == pytest.approx(hours * 3600 * 0.000164)  # Modal, 2026-05-07
    for form in (format_fit_table, render_fit_table, encode_fit_table, render_fit_page):
        shown = " ".join(form(table).split())
        assert "qwen3-0.6b" in shown and "QLoRA" in shown
        assert "on-demand price of modal, 2026-05-07" in shown


def test_no_cost_without_a_price_and_the_plans_own_counts() -> None:
    def ask(card: str, *changes: str) -> str:
        table = evaluate_fit_table(card, 2, ["qwen3-0.6b"], ["512"], changes=changes)
        hours, cost = table.cells[1].hours[0], table.cells[1].row[COST]
        assert cost is None or cost == pytest.approx(hours * 2 * 3)
        return " ".join(format_fit_table(table).split())

    assert "USD" not in (unknown := ask("rtx-3060")) and "price of a device is unknown" in unknown
    assert "at 3 USD/h a device" in ask("t4", "cluster.price=3 USD/h")


@pytest.mark.slow
@pytest.mark.parametrize("card", ["t4", "l40s"])
def test_the_page_of_cards_is_what_the_command_prints(card: str) -> None:
    page = (resources.folder("docs") / "cards.md").read_text("utf-8")
    shown = page.partition(f"## {card}\n")[2].partition("\n## ")[0].splitlines()
    table = evaluate_fit_table(card, 1, ["qwen3-0.6b"], ["1024"])
    said, _, _, _, *rows = render_fit_table(table).splitlines()
    assert said in shown
    for row in rows[:3]:
        assert [line for line in shown if line.startswith(row)], row


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("trainer", ["trl", "axolotl", "llama-factory"])
def test_trainers_start_the_plans_of_their_stack(trainer: str, tmp_path: Path) -> None:
    table = evaluate_fit_table(
        "a100-sxm-80gb", 4, ["qwen3-32b"], ["2048", "8192"],
        changes=[f"training.stack={trainer}"],
    )  # fmt: skip
    cluster = ("accelerator=a100-sxm-80gb", "devices=4", "devices_per_node=4")
    given = ["model=qwen3-32b", *(f"cluster.{each}" for each in cluster)]
    written = write_cell_plans(table, str(tmp_path))
    assert len(written) > 2
    for file in written:
        plan, there = loading.load(file), tmp_path / "launch.yaml"
        made = exports.build_config(plan, trainer)
        assert not made.lost
        there.write_text(made.text)
        there.write_text(imports.import_file(str(there), trainer, True, given).text)
        planned, back = evaluate_plan(plan), evaluate_plan(loading.load(there))
        for name in (PROCESS_BYTES, RATE):
            assert back[name].value == planned[name].value


@pytest.mark.slow
def test_what_trainers_say_of_five_cards_is_beside_what_we_say() -> None:
    page = (resources.folder("docs") / "cards.md").read_text("utf-8")
    lines = Path(__file__).parents[1].joinpath("data/memory_reports.jsonl").read_text("utf-8")
    reports = {row["id"]: row for row in map(json.loads, lines.splitlines())}
    for row in read_data("trainers_say"):
        plan = row.get("plan") or reports[row["report"]]["plan"]
        result = evaluate_plan(loading.load(plan))
        assert result.verdict["state"] == row["state"], row["what"]
        ours = [gib(result[name].value) for name in ("memory.total", PROCESS_BYTES)]
        assert f"| {row['what']} | {row['said']} | {ours[0]} | {ours[1]} of " in page, row["what"]


@pytest.mark.parametrize(("words", "said"), read_data("questions")["wrong_fit_tables"])
def test_wrong_input_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["fit-table", *words]) == 2
    out, error = capsys.readouterr()
    assert not out and said in error and len(error.splitlines()) == 1
