"""Launch configurations in the hands of the frameworks themselves, where these are installed.

Optional: `pip install deepspeed accelerate torchtitan==0.3.0 megatron-core`; each test skips
itself where its framework is missing.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from benchmarks import launch_files
from planner.connect.exports import build_config, load_framework
from planner.connect.exports.table import walk_texts
from planner.plans.document import Plan
from planner.questions import loading
from planner.results.result import evaluate_plan
from tests.conftest import read_data

ROOT = Path(__file__).resolve().parents[2]

# Layouts that between them use every key of the tables.
LAYOUTS: dict[str, tuple[str, tuple[str, ...]]] = read_data("connect")["exported_layouts"]


def load(layout: str) -> Plan:
    preset, changes = LAYOUTS[layout]
    return loading.load(ROOT / "presets" / f"{preset}.yaml", changes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_deepspeed_reads_its_configuration(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = pytest.importorskip("deepspeed.runtime.config")
    plan = load(layout)
    made = json.loads(build_config(plan, "deepspeed").text)

    class Unit:
        """The model-parallel unit that tells DeepSpeed the data-parallel size."""

        get_data_parallel_world_size = staticmethod(lambda: plan.get("parallelism.data"))

    monkeypatch.setattr(runtime.dist, "get_rank", lambda: 0)
    read = runtime.DeepSpeedConfig(made, mpu=Unit())
    # It checks train_batch = micro-batch × accumulation × data-parallel size itself.
    assert read.world_size == plan.get("parallelism.data")
    assert read.gradient_accumulation_steps == plan.get("training.gradient_accumulation")
    assert read.zero_optimization_stage == plan.get("parallelism.zero")
    assert read.bfloat16_config.enabled == (plan.get("training.precision")[:4] in ("bf16", "fp8"))
    # DeepSpeed ignores an unknown key at the top level, so the names are held to its source.
    source = "".join(
        path.read_text(encoding="utf-8") for path in Path(runtime.__file__).parent.rglob("*.py")
    )
    for key in made:
        assert f'"{key}"' in source or f"'{key}'" in source, key


@pytest.mark.parametrize("layout", LAYOUTS)
def test_accelerate_reads_its_configuration(layout: str, tmp_path: Path) -> None:
    arguments = pytest.importorskip("accelerate.commands.config.config_args")
    launch = pytest.importorskip("accelerate.commands.launch")
    plan = load(layout)
    file = tmp_path / "accelerate.yaml"
    file.write_text(build_config(plan, "accelerate").text, encoding="utf-8")
    read = arguments.load_config_from_file(str(file))  # refuses unknown keys
    assert read.num_processes == plan.get("cluster.devices")
    known = {action.dest for action in launch.launch_command_parser()._actions}
    for key in {**read.fsdp_config, **read.parallelism_config}:
        assert key in known, key


@pytest.mark.parametrize("layout", LAYOUTS)
def test_torchtitan_starts_what_is_not_refused(layout: str) -> None:
    """Its own parser, the sizes of its mesh and its models; python -m benchmarks.launch_files has
    more of it."""
    pytest.importorskip("torchtitan.trainer")
    plan = load(layout)
    made = build_config(plan, "torchtitan")
    if not made.lost:
        theirs = launch_files.Torchtitan("")
        assert launch_files.apart(lambda: theirs.valid(made, plan)) == "yes"
        count = launch_files.apart(lambda: theirs.count(made, plan))
        assert count == str(evaluate_plan(plan)["parameters.total"].number)


def test_torchtitan_names_of_schedules_are_those_of_pytorch() -> None:
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    for name in ("1F1B", "Interleaved1F1B", "GPipe"):
        assert name in set(walk_texts(load_framework("torchtitan").rows))
        assert schedules.get_schedule_class(name)


# Options of Megatron-LM's trainer, which Megatron Core knows nothing of.
OF_THE_TRAINER = set(read_data("exports")["of_megatrons_trainer"])
RENAMED = read_data("exports")["renamed"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_megatron_core_has_the_options_that_configure_it(layout: str) -> None:
    transformer = pytest.importorskip("megatron.core.transformer.transformer_config")
    optimizer = pytest.importorskip("megatron.core.optimizer.optimizer_config")
    distributed = pytest.importorskip("megatron.core.distributed.distributed_data_parallel_config")
    known = {
        f.name
        for kind in (
            transformer.MLATransformerConfig,
            optimizer.OptimizerConfig,
            distributed.DistributedDataParallelConfig,
        )
        for f in dataclasses.fields(kind)
    }
    for option in build_config(load(layout), "megatron").said:
        if option not in OF_THE_TRAINER:
            name = RENAMED.get(option, option.replace("-", "_"))
            assert name in known, option
