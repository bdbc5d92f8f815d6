"""Exports in the hands of Hugging Face's libraries and of what is built on them: each is parsed by
the library's own parser, validated by its own classes, and asked for what it will run.

Each reader takes the text of a file, its plan and the environment, and answers with the keys of a
plan as the library understood them. They need no GPU: where one is only asked for,
something stands in for it. Called by `python -m benchmarks.launch_files --libraries`.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Collection, Mapping
from importlib import import_module, metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from planner.plans.document import Plan

Read = Callable[[str, Plan, Mapping[str, str]], dict[str, Any]]
#: What files leave to whoever starts the run.
MODEL, LEARNING_RATE = "Qwen/Qwen3-8B", 1e-5


def _file(text: str) -> str:
    path = Path(tempfile.mkdtemp()) / "run.yaml"
    path.write_text(text, "utf-8")
    return str(path)


def _training(args: Any, plan: Plan) -> dict[str, Any]:
    """What TrainingArguments say, as Accelerate and DeepSpeed take it from them."""
    from accelerate import ParallelismConfig
    from accelerate.utils import FullyShardedDataParallelPlugin

    meant = {
        "training.micro_batch": args.per_device_train_batch_size,
        "training.gradient_accumulation": args.gradient_accumulation_steps,
        "training.precision": args.mixed_precision,
        "training.optimizer": args.optim.value,
        "training.recompute": bool(args.gradient_checkpointing),
        "parallelism.zero": 0,
    }
    if args.fsdp:
        sharded = FullyShardedDataParallelPlugin(**args.fsdp_plugin_args)
        meant["parallelism.zero"] = 3 if sharded.reshard_after_forward else 2
        meant["training.recompute"] |= sharded.activation_checkpointing
    if args.deepspeed:
        meant |= deepspeed(json.dumps(_finalised(args)), plan, {})
    if os.environ.get("ACCELERATE_USE_PARALLELISM_CONFIG") == "true":
        meant |= _mesh(ParallelismConfig(), plan)
    return meant


def _finalised(args: Any) -> dict[str, Any]:
    """DeepSpeed's configuration as the trainer fills it in."""
    held = args.hf_deepspeed_config
    dense = SimpleNamespace(config=SimpleNamespace(hidden_size=4096))
    held.trainer_config_finalize(args, dense, 100)
    return {k: v for k, v in held.config.items() if k != "train_batch_size"}


def _mesh(mesh: Any, plan: Plan) -> dict[str, Any]:
    if mesh.total_size != plan.get("cluster.devices"):
        raise ValueError(f"a mesh of {mesh.total_size} devices")
    return {
        "parallelism.replicate": mesh.dp_replicate_size,
        "parallelism.tensor": mesh.tp_size,
        "parallelism.context": mesh.cp_size,
    }


def deepspeed(text: str, plan: Plan, _: Mapping[str, str]) -> dict[str, Any]:
    """DeepSpeedConfig, which checks the batch sizes and each section."""
    from deepspeed.runtime import config as runtime

    said = json.loads(text)
    unit: Any = SimpleNamespace(get_data_parallel_world_size=lambda: plan.get("parallelism.data"))
    runtime.dist.get_rank = lambda: 0
    read = runtime.DeepSpeedConfig(said, mpu=unit)
    meant = {
        "training.micro_batch": read.train_micro_batch_size_per_gpu,
        "training.gradient_accumulation": read.gradient_accumulation_steps,
        "parallelism.zero": read.zero_optimization_stage,
        "parallelism.tensor": read.tensor_parallel_config.autotp_size or 1,
    }
    enabled = read.bfloat16_config.enabled and "bf16", read.float16_config.enabled and "fp16"
    return {**meant, "training.precision": next(filter(None, enabled), "no")}


def accelerate(text: str, plan: Plan, _: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of `accelerate launch`, the environment that it makes, and what its plugins
    read there."""
    from accelerate import ParallelismConfig
    from accelerate.commands import launch
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.launch import prepare_multi_gpu_env

    path = _file(text)
    parser = launch.launch_command_parser()
    args = parser.parse_args(["--config_file", path, "train.py"])
    args, *_ = launch._validate_launch_command(args)
    if args.num_processes != plan.get("cluster.devices"):
        raise ValueError(f"{args.num_processes} processes")
    os.environ |= {k: str(v) for k, v in prepare_multi_gpu_env(args).items()}
    meant = {"training.precision": args.mixed_precision, "parallelism.zero": 0}
    if args.use_fsdp:
        sharded = FullyShardedDataParallelPlugin()
        meant["parallelism.zero"] = 3 if sharded.reshard_after_forward else 2
        meant["training.recompute"] = bool(sharded.activation_checkpointing)
        meant |= _mesh(ParallelismConfig(), plan) if args.use_parallelism_config else {}
    return meant


def transformers(text: str, plan: Plan, environment: Mapping[str, str]) -> dict[str, Any]:
    from transformers import HfArgumentParser, TrainingArguments, training_args

    training_args.is_torch_bf16_gpu_available = lambda: True
    os.environ |= environment
    (args,) = HfArgumentParser(TrainingArguments).parse_yaml_file(_file(text))
    return _training(args, plan)


def trl(text: str, plan: Plan, _: Mapping[str, str]) -> dict[str, Any]:
    from transformers import training_args
    from trl import ModelConfig, ScriptArguments, SFTConfig, TrlParser, get_peft_config

    training_args.is_torch_bf16_gpu_available = lambda: True
    parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))
    given = ["--config", _file(text), "--model_name_or_path", MODEL, "--dataset_name", "any"]
    _, args, model = parser.parse_args_and_config(given)
    adapters = get_peft_config(model)
    meant = {"training.sequence_length": args.max_length}
    meant |= {"training.lora.rank": adapters.r} if adapters else {}
    return {**_training(args, plan), **meant}


def axolotl(text: str, plan: Plan, _: Mapping[str, str]) -> dict[str, Any]:
    from axolotl.utils import config as theirs
    from axolotl.utils.dict import DictDefault
    from axolotl.utils.distributed import _get_parallel_config_kwargs

    besides = {
        "base_model": MODEL,
        "learning_rate": LEARNING_RATE,
        "datasets": [{"path": "any", "type": "alpaca"}],
    }
    able = {"bf16": True, "fp8": True, "tf32": True, "n_gpu": 8, "compute_capability": "sm_90"}
    told = {"torch_version": "2.13.0"}
    read = theirs.validate_config(DictDefault(yaml.safe_load(text) | besides), able, told)
    meant = {
        "training.micro_batch": read.micro_batch_size,
        "training.gradient_accumulation": read.gradient_accumulation_steps,
        "training.sequence_length": read.sequence_len,
        "training.optimizer": str(getattr(read.optimizer, "value", read.optimizer)),
        "training.recompute": bool(read.gradient_checkpointing),
        "training.precision": "bf16" if read.bf16 else "fp16" if read.fp16 else "no",
        "parallelism.zero": 0,
        **({"training.lora.rank": read.lora_r} if read.adapter else {}),
    }
    if read.fsdp_config:
        meant["parallelism.zero"] = 3 if read.fsdp_config.reshard_after_forward else 2
        sizes = _get_parallel_config_kwargs(
            plan.get("cluster.devices"),
            read.tensor_parallel_size,
            read.context_parallel_size,
            read.dp_shard_size,
            read.dp_replicate_size,
            True,
        )
        from accelerate import ParallelismConfig

        meant |= _mesh(ParallelismConfig(**sizes), plan)
    if read.deepspeed:
        meant["parallelism.zero"] = read.deepspeed["zero_optimization"]["stage"]
    return meant


def llama_factory(text: str, plan: Plan, environment: Mapping[str, str]) -> dict[str, Any]:
    os.environ |= {"DISABLE_VERSION_CHECK": "1", "FORCE_TORCHRUN": "1", **environment}
    from llamafactory.extras import misc
    from llamafactory.hparams import parser
    from transformers import training_args
    from transformers.training_args import ParallelMode

    training_args.is_torch_bf16_gpu_available = parser.is_torch_bf16_gpu_available = lambda: True
    misc.is_torch_cuda_available = lambda: True
    training_args.TrainingArguments.parallel_mode = property(lambda _: ParallelMode.DISTRIBUTED)
    besides = {"model_name_or_path": MODEL, "dataset": "any", "template": "qwen3"}
    said = yaml.safe_load(text) | besides | {"output_dir": tempfile.mkdtemp()}
    model, data, args, tuning, _ = parser.get_train_args(said)
    meant = _training(args, plan)
    meant["training.recompute"] = not model.disable_gradient_checkpointing
    meant |= {"training.optimizer": "muon"} if tuning.use_muon else {}
    if tuning.finetuning_type == "lora":
        meant["training.lora.rank"] = tuning.lora_rank
    # Of packed sequences it counts one token less, and pads to the length all the same.
    return {**meant, "training.sequence_length": data.cutoff_len + bool(data.packing)}


#: The reader of each, and the distributions whose versions decide.
LIBRARIES: Mapping[str, tuple[Read, tuple[str, ...]]] = {
    "deepspeed": (deepspeed, ("deepspeed",)),
    "accelerate": (accelerate, ("accelerate",)),
    "transformers": (transformers, ("transformers", "accelerate")),
    "trl": (trl, ("trl", "transformers")),
    "axolotl": (axolotl, ("axolotl",)),
    "llama-factory": (llama_factory, ("llamafactory", "transformers")),
}


def load() -> None:
    """The libraries, once for all that is read in processes of their own."""
    os.environ["DISABLE_VERSION_CHECK"] = "1"  # LLaMA-Factory's, which knows transformers to 5.6
    for module in (
        "trl",
        "accelerate",
        "deepspeed",
        "axolotl.utils.config",
        "llamafactory.hparams",
    ):
        import_module(module)


def version(name: str) -> str:
    """The versions that a reader runs with.

    Raises:
        PackageNotFoundError: one of them is not installed.
    """
    return ", ".join(f"{one} {metadata.version(one)}" for one in LIBRARIES[name][1])


def differing(meant: Mapping[str, Any], plan: Plan, near: Collection[str]) -> dict[str, Any]:
    """Where a library understood another value than the plan's, both of them, but for keys of which
    the export says that they are not quite what they say."""
    found = {}
    for key, value in meant.items():
        wanted = plan.get(key)
        if key == "training.precision":
            wanted = {"fp32": "no", "bf16-pure": "no", "fp8": "bf16"}.get(wanted, wanted)
        elif key == "training.recompute":
            wanted = wanted != "none"
        elif key == "training.optimizer":
            wanted, value = wanted.split("-")[0], value[: len(wanted.split("-")[0])]
        if key not in near and value != wanted:
            found[key] = (value, wanted)
    return found
