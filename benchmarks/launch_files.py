"""Exports in the hands of the frameworks: `python -m benchmarks.launch_files --megatron DIR …`.

Each plan of tests/data/launch_plans.yaml is exported, parsed and validated by the framework's own
code, and the model built without memory (on the meta device, on one device) to count its
parameters. Each DIR is a checkout of the framework, or a folder of packages that has it; besides
it torch and what it imports are needed, and no GPU: where kernels and CUDA are only asked for,
something stands in for them. `--write` keeps the results (tests/data/launch_results.json), of which
`make pages` makes the table of docs/connections.md.

--megatron    Megatron-LM: arguments.py validates, gpt_builder builds
--torchtitan  torchtitan: ConfigManager reads the file, Trainer.Config, the sizes of the mesh and
              update_from_config validate, the model's configuration builds
--nanotron    nanotron: its configuration is made of the file, build_model builds
--maxtext     MaxText: types.py validates the file over base.yml; nothing is built
--megatron-bridge  Megatron-LM and Megatron-Bridge, two folders with a colon between: the recipe's
              ConfigContainer validates itself, its provider builds
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import io
import json
import logging
import math
import os
import sys
import tempfile
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from benchmarks import hugging_face
from planner.connect.exports import build_config, table
from planner.connect.exports.table import LaunchConfig
from planner.plans.document import Plan
from planner.questions import loading
from planner.results.result import evaluate_plan

DATA = Path(__file__).parents[1] / "tests" / "data"
PLANS, RESULTS = DATA / "launch_plans.yaml", DATA / "launch_results.json"
ALL = {"tokens": "1T", "sequence_length": 4096, "global_batch": 1024, "precision": "bf16"}
#: What Megatron-LM asks of every run and a plan does not hold.
BESIDES = ["--lr", "1e-4", "--mock-data", "--tokenizer-type", "NullTokenizer"]
#: Options that shape the model; on one device, without the kernels of GPUs, the others go.
SHAPES = (
    "num-layers", "hidden-size", "num-attention-heads", "group-query", "num-query", "kv-channels",
    "multi-latent", "q-lora", "kv-lora", "qk-", "v-head", "ffn-", "swiglu", "squared", "norm",
    "moe-router", "moe-ffn", "moe-shared", "moe-layer", "num-experts", "add-qkv", "disable-bias",
    "vocab", "make-vocab", "untie", "position", "max-position", "seq-length", "micro-batch", "mtp",
    "window", "train-samples", "hidden-dropout", "attention-dropout", "softmax-type",
)  # fmt: skip
ALONE = [
    *("--transformer-impl", "local", "--use-cpu-initialization", "--bf16"),
    *("--attention-backend", "unfused", "--no-rope-fusion", "--no-bias-swiglu-fusion"),
    *("--no-bias-gelu-fusion", "--no-bias-dropout-fusion", "--no-masked-softmax-fusion"),
    *("--no-gradient-accumulation-fusion", "--no-persist-layer-norm"),
    *("--moe-token-dispatcher-type", "alltoall"),
]


def read_documents() -> dict[str, dict[str, Any]]:
    """Read the plans, as documents by name."""
    return {
        name: {
            "model": model,
            "cluster": {"extends": "h100x1024", "devices": devices},
            "training": {**ALL, **run},
            "parallelism": layout,
        }
        for name, model, devices, run, layout in yaml.safe_load(PLANS.read_text("utf-8"))
    }


def plans() -> Iterator[tuple[str, Plan]]:
    """The plans by name."""
    for name, document in read_documents().items():
        yield name, loading.load(document)


def arguments(said: Mapping[str, Any]) -> list[str]:
    """Options as a shell hands them over."""
    words = ([f"--{key}", *table.format_args(value)] for key, value in said.items())
    return [*chain.from_iterable(words), *BESIDES]


class Megatron:
    """Megatron-LM's own reading of arguments, without a GPU."""

    version = "Megatron-LM of 2026-08-22 (d98e8a6)"

    def __init__(self, folder: str) -> None:
        if not hasattr(typing, "override"):  # before Python 3.12
            vars(typing)["override"] = lambda function: function
        sys.path.insert(0, folder)
        os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost"}
        import torch

        def device(*_: Any) -> Any:
            return types.SimpleNamespace(major=9, minor=0, name="H100", total_memory=80 << 30)

        cuda: Any = torch.cuda
        cuda.get_device_capability, cuda.get_device_properties = lambda *_: (9, 0), device
        cuda.is_available, cuda.current_device = lambda: False, lambda: "cpu"
        cuda.Stream = cuda.Event = type("Nothing", (), {"__init__": lambda *_, **__: None})
        from megatron.core.models.common.embeddings import rope_utils
        from megatron.core.transformer import dot_product_attention, transformer_config
        from megatron.core.transformer.moe import moe_utils
        from packaging.version import Version

        transformer_config.is_te_min_version = lambda *_, **__: True
        transformer_config.get_te_version = lambda: Version("2.9")
        for module in (rope_utils, moe_utils):
            for name in [name for name in vars(module) if name.startswith("fused_")]:
                if getattr(module, name) is None:
                    setattr(module, name, object())
        attention: Any = dot_product_attention.DotProductAttention
        made = attention.__init__

        def without_widths(self: Any, *given: Any, **named: Any) -> None:
            widths = ("k_channels", "v_channels")
            made(self, *given, **{k: v for k, v in named.items() if k not in widths})

        attention.__init__ = without_widths
        self.torch: Any = torch

    def valid(self, made: LaunchConfig, plan: Plan) -> str:
        fsdp = "use-megatron-fsdp" in made.said
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "32" if fsdp else "1"
        return "yes" if self.validated(arguments(made.said), plan.get("cluster.devices")) else ""

    def count(self, made: LaunchConfig, plan: Plan) -> int:
        return self.built(made.said)

    def validated(self, given: list[str], devices: int) -> Any:
        """The arguments as Megatron-LM completes them."""
        from megatron.training import arguments as theirs

        os.environ["WORLD_SIZE"], sys.argv = str(devices), ["pretrain_gpt.py", *given]
        args = theirs.validate_args(theirs.parse_args(), {})
        theirs.core_transformer_config_from_args(args)
        return args

    def built(self, said: Mapping[str, Any]) -> int:
        """The parameters of the model that arguments describe."""
        own = {key: value for key, value in said.items() if key.startswith(SHAPES)}
        batch = ["--global-batch-size", str(said["micro-batch-size"])]
        args = self.validated([*arguments(own), *ALONE, *batch], 1)
        from gpt_builders import gpt_builder
        from megatron.core import parallel_state
        from megatron.training.global_vars import set_args

        set_args(args)
        with tempfile.TemporaryDirectory() as folder:
            where = {"init_method": f"file://{folder}/store", "world_size": 1, "rank": 0}
            self.torch.distributed.init_process_group("gloo", **where)
            parallel_state.initialize_model_parallel()
            args.padded_vocab_size, args.init_model_with_meta_device = said["vocab-size"], True
            with self.torch.device("meta"):
                model = gpt_builder(args, True, True)
        return unique(model)


def apart(function: Callable[[], Any]) -> str:
    """What a function says, in a process of its own: Megatron-LM keeps its arguments."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            try:
                said = str(function())
            except BaseException as error:  # of whatever kind
                said = f"{type(error).__name__}: {error}"
        os.write(theirs, said.encode()[:2000])
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        answer = pipe.read().decode("utf-8", "replace")
    os.waitpid(child, 0)
    return answer


class Bridge(Megatron):
    """Megatron-Bridge's own classes over Megatron Core: the recipe makes its ConfigContainer, which
    is completed as its setup does and validates itself; the model's provider builds."""

    version = "Megatron-Bridge of 2026-08-22 (067f987)"

    def __init__(self, folder: str) -> None:
        core, _, bridge = folder.partition(os.pathsep)
        super().__init__(core)
        for name in ("models.gpt", "optimizer", "distributed", "models.gpt.gpt_layer_specs"):
            importlib.import_module(f"megatron.core.{name}")
        importlib.import_module("megatron.training.config")
        absent(
            *("transformers", "transformer_engine", "peft", "diffusers", "datasets", "omegaconf"),
            *("nvidia_resiliency_ext", "mamba_ssm", "modelopt", "megatron_energon", "wandb", "PIL"),
            *("qwen_vl_utils", "timm", "open_clip", "fla", "torchvision", "hydra", "accelerate"),
            *("tensorboard", "google"),
        )
        src = Path(bridge, "src", "megatron", "bridge")
        for name in ("", "models", "peft", "data", "models.conversion", "recipes"):
            self._plain(f"megatron.bridge.{name}".rstrip("."), src.joinpath(*name.split(".")))
        models: Any = sys.modules["megatron.bridge.models"]
        for name, kind in (("gpt_provider", "GPT"), ("t5_provider", "T5")):
            module = importlib.import_module(f"megatron.bridge.models.{name}")
            setattr(models, f"{kind}ModelProvider", getattr(module, f"{kind}ModelProvider"))
        logging.disable(logging.ERROR)  # what is not there is said again for each plan
        for name in ("training.pretrain", "training.gpt_step", "models.mla_provider"):
            importlib.import_module(f"megatron.bridge.{name}")

    @staticmethod
    def _plain(name: str, folder: Path) -> None:
        """A package without what its first file imports: all the models that it converts."""
        module = types.ModuleType(name)
        module.__path__ = [str(folder)]
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        setattr(sys.modules[parent], last, module)

    def job(self, made: LaunchConfig) -> Any:
        theirs: dict[str, Any] = {"__name__": "run"}
        text = made.text.replace("use_transformer_engine=True", "use_transformer_engine=False")
        exec(compile(text, "run.py", "exec"), theirs)
        return theirs["plan"]()

    def valid(self, made: LaunchConfig, plan: Plan) -> str:
        from megatron.bridge.training import config as theirs

        devices = plan.get("cluster.devices")
        os.environ |= {"WORLD_SIZE": str(devices), "CUDA_DEVICE_MAX_CONNECTIONS": "32"}
        theirs.get_world_size_safe = lambda: devices
        job = self.job(made)
        theirs.runtime_config_update(job)
        assert job.data_parallel_size == plan.get("parallelism.data"), "data-parallel size"
        steps = job.train.global_batch_size // job.train.micro_batch_size // job.data_parallel_size
        assert steps == plan.get("training.gradient_accumulation"), f"{steps} micro-batches"
        return "yes"

    def count(self, made: LaunchConfig, plan: Plan) -> int:
        from megatron.core import parallel_state
        from megatron.core.process_groups_config import ProcessGroupCollection

        model = self.job(made).model
        for name in ("tensor", "pipeline"):
            setattr(model, f"{name}_model_parallel_size", 1)
        model.context_parallel_size = model.expert_model_parallel_size = 1
        model.expert_tensor_parallel_size = 1
        model.pipeline_model_parallel_layout = model.virtual_pipeline_model_parallel_size = None
        model.num_layers_in_first_pipeline_stage = model.num_layers_in_last_pipeline_stage = None
        model.sequence_parallel, model.should_pad_vocab = False, False
        model.moe_token_dispatcher_type = "allgather"  # the others want CUDA
        model.bf16, model.params_dtype = True, self.torch.bfloat16
        model.use_cpu_initialization, model.init_model_with_meta_device = True, True
        model.gradient_accumulation_fusion = model.masked_softmax_fusion = False
        model.attention_backend = type(model.attention_backend).unfused
        model.moe_grouped_gemm = False
        model.finalize()
        with tempfile.TemporaryDirectory() as folder:
            where = {"init_method": f"file://{folder}/store", "world_size": 1, "rank": 0}
            self.torch.distributed.init_process_group("gloo", **where)
            parallel_state.initialize_model_parallel()
            model._pg_collection = ProcessGroupCollection.use_mpu_process_groups()
            built = model.provide(pre_process=True, post_process=True)
        return unique(built)


class Torchtitan:
    """torchtitan's own reading of a configuration, and its models."""

    version = "torchtitan 0.3.0"

    def __init__(self, folder: str) -> None:
        sys.path.insert(0, folder)
        import torch
        from torchtitan.models.common import config_utils

        dispatcher: Any = config_utils.make_token_dispatcher_config
        named = {"comm_backend": "standard"}  # DeepEP's kernels are not there
        config_utils.make_token_dispatcher_config = lambda **given: dispatcher(**{**given, **named})
        self.torch: Any = torch

    def valid(self, made: LaunchConfig, plan: Plan) -> str:
        from torchtitan.distributed import ParallelDims

        job = self.job(made)
        sizes = ParallelDims.from_config(job.parallelism, plan.get("cluster.devices"))
        group = sizes.dp_replicate * sizes.dp_shard * job.training.local_batch_size
        assert job.training.global_batch_size % group == 0, "the batch is no multiple"
        steps = job.training.global_batch_size // group
        if sizes.pp > 1:
            steps *= job.training.local_batch_size
            steps //= job.parallelism.pipeline_parallel_microbatch_size
        assert steps == plan.get("training.gradient_accumulation"), f"{steps} micro-batches"
        job.model_spec.model.update_from_config(config=job)
        return "yes"

    def count(self, made: LaunchConfig, plan: Plan) -> int:
        with self.torch.device("meta"):
            model = self.job(made).model_spec.model.build()
        return unique(model)

    def job(self, made: LaunchConfig) -> Any:
        from torchtitan.config import ConfigManager

        # Float8 replaces linears one for one, and asks for a GPU.
        kept = (line for line in made.text.splitlines() if ".convert(" not in line)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "run.py").write_text("\n".join(kept), "utf-8")
            sys.path.insert(0, folder)
            return ConfigManager().parse_args(["--module", "run", "--config", "plan"])


class Nanotron:
    """nanotron's own reading of a configuration, and its models."""

    version = "nanotron of 2026-04-07 (2411b02)"
    #: What it asks of every run and a plan does not hold.
    besides: Mapping[str, Mapping[str, Any]] = {
        "tokenizer": {"tokenizer_name_or_path": "none"},
        "model": {"init_method": {"std": 0.02}},
        "optimizer": {
            "weight_decay": 0.1,
            "clip_grad": 1.0,
            "learning_rate_scheduler": {
                **{"learning_rate": 1e-4, "lr_warmup_steps": 1, "lr_warmup_style": "linear"},
                **{"lr_decay_style": "cosine", "min_decay_lr": 1e-5},
            },
        },
    }
    adam: Mapping[str, Any] = {
        **{"adam_eps": 1e-8, "adam_beta1": 0.9, "adam_beta2": 0.95},
        "torch_adam_is_fused": True,
    }

    def __init__(self, folder: str) -> None:
        src = Path(folder, "src")
        sys.path.insert(0, str(src if src.exists() else folder))
        import torch

        absent("flash_attn", "grouped_gemm", "datatrove", "wandb")
        cuda: Any = torch.cuda
        cuda.current_device = lambda: "cpu"
        self.torch: Any = torch

    def job(self, made: LaunchConfig) -> Any:
        from nanotron.config.config import get_config_from_dict

        tree = yaml.safe_load(made.text)
        for section, keys in self.besides.items():
            tree[section] = {**tree.get(section, {}), **keys}
        factory = tree["optimizer"]["optimizer_factory"]
        factory |= self.adam if factory["name"] == "adamW" else {}
        return get_config_from_dict(tree)

    def valid(self, made: LaunchConfig, plan: Plan) -> str:
        job = self.job(made)
        sizes, tokens = job.parallelism, job.tokens
        devices = sizes.dp * sizes.tp * sizes.pp * sizes.context_parallel_size
        assert devices == plan.get("cluster.devices"), f"{devices} devices"
        batch = tokens.micro_batch_size * tokens.batch_accumulation_per_replica * sizes.dp
        assert batch == plan.get("training.global_batch"), f"a batch of {batch}"
        return "yes"

    def count(self, made: LaunchConfig, plan: Plan) -> int:
        from nanotron.models import build_model
        from nanotron.models.llama import LlamaForTraining
        from nanotron.models.qwen import Qwen2ForTraining
        from nanotron.nn import moe
        from nanotron.parallel import ParallelContext
        from nanotron.parallel.pipeline_parallel.p2p import P2P

        ParallelContext.set_device = lambda self: None
        P2P.__init__ = lambda self, pg, device: self.__dict__.update(pg=pg, device=device)
        drawn: Any = self.torch.randn
        moe.torch = types.SimpleNamespace(**vars(self.torch))
        moe.torch.randn = lambda *shape, **given: drawn(*shape, **{**given, "device": "meta"})
        os.environ |= {"WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}
        job = self.job(made)
        sizes, model = job.parallelism, job.model.model_config
        sizes.tp = sizes.dp = sizes.pp = sizes.context_parallel_size = (
            sizes.expert_parallel_size
        ) = 1
        made_by = {"LlamaConfig": LlamaForTraining, "Qwen2Config": Qwen2ForTraining}
        with tempfile.TemporaryDirectory() as folder:
            where = {"init_method": f"file://{folder}/store", "world_size": 1, "rank": 0}
            self.torch.distributed.init_process_group("gloo", **where)
            group = ParallelContext(1, 1, 1)
            built = build_model(
                lambda: made_by[type(model).__name__](
                    config=model, parallel_context=group, parallel_config=sizes, random_states=None
                ),
                parallel_context=group,
                dtype=self.torch.bfloat16,
                device=self.torch.device("meta"),
            )
        return unique(built)


class Maxtext:
    """MaxText's own validation of a configuration; its models are not built."""

    version = "MaxText of 2026-08-22 (e591f30)"
    count = None

    def __init__(self, folder: str) -> None:
        self.src = Path(folder, "src")
        sys.path.insert(0, str(self.src))
        os.environ["JAX_PLATFORMS"] = "cpu"
        absent(
            *("google", "orbax", "tensorflow", "tensorboardX", "grain", "aqt", "qwix", "tokamax"),
            *("pathwaysutils", "transformers", "datasets", "psutil", "transformer_engine"),
            *("ml_goodput_measurement", "cloud_tpu_diagnostics", "huggingface_hub", "tunix"),
            *("drjax", "etils", "ml_collections", "google_cloud_mldiagnostics", "wandb"),
        )

    def valid(self, made: LaunchConfig, plan: Plan) -> str:
        from maxtext.configs import pyconfig
        from maxtext.configs import types as theirs

        base = yaml.safe_load((self.src / "maxtext/configs/base.yml").read_text("utf-8"))
        own = yaml.safe_load(made.text)
        assert own.pop("base_config") == "base.yml"
        devices = plan.get("cluster.devices")
        nodes = math.prod(size for key, size in own.items() if key.startswith("dcn_"))
        target = {"internal_compile": True, "internal_compile_num_devices": devices}
        target["num_slices"] = nodes  # which JAX counts by itself where the devices are
        job = theirs.MaxTextConfig(**pyconfig._prepare_for_pydantic({**base, **target, **own}))
        axes = [key for key in own if key.endswith("_parallelism")]
        assert math.prod(own[key] for key in axes) == devices, "sizes of the mesh"
        batch = job.global_batch_size_to_train_on
        assert batch == plan.get("training.global_batch"), f"a batch of {batch}"
        return "yes"


def absent(*names: str) -> None:
    """Something stands in for packages that no machine without an accelerator has, or for which
    a configuration is only asked."""
    Base: Any = object
    with contextlib.suppress(ImportError):
        from torch.nn import Module

        Base = Module

    class Nothing(types.ModuleType):
        __path__: Any = ()
        __version__ = "3.0.0"

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            if name[0].isupper():
                made = {"__init__": lambda self, *_, **__: Base.__init__(self)}
                return type(name, (Base,), made)
            return Nothing(name)

        def __call__(self, *given: Any, **_: Any) -> Any:
            return given[0] if given and callable(given[0]) else self

    class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
            known = name.partition(".")[0] in names
            return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

        def create_module(self, spec: Any) -> types.ModuleType:
            return Nothing(spec.name)

        def exec_module(self, module: types.ModuleType) -> None:
            """Nothing in it."""

    sys.meta_path.append(Finder())


def unique(model: Any) -> int:
    """The parameters of a model, shared ones once."""
    return sum(one.numel() for one in {id(p): p for p in model.parameters()}.values())


class Library:
    """A library that is installed, by its reader (benchmarks.hugging_face); its files name a model,
    and hold none to build."""

    count = None

    def __init__(self, name: str) -> None:
        self.read = hugging_face.LIBRARIES[name][0]
        self.version = hugging_face.version(name)

    def valid(self, made: LaunchConfig, plan: Plan) -> str:
        meant = self.read(made.text, plan, made.environment)
        near = [each.key for each in made.unsaid]
        return str(hugging_face.differing(meant, plan, near) or "yes")


FRAMEWORKS: dict[str, Callable[[str], Any]] = {
    "megatron": Megatron,
    "torchtitan": Torchtitan,
    "nanotron": Nanotron,
    "maxtext": Maxtext,
    "megatron-bridge": Bridge,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name in FRAMEWORKS:
        parser.add_argument(f"--{name}", help="a checkout, or a folder of packages")
    parser.add_argument("--plan", help="one plan alone, by its name")
    parser.add_argument("--write", action="store_true", help="keep the results for the docs")
    parser.add_argument("--libraries", action="store_true", help="those that are installed")
    options, bad = vars(parser.parse_args()), 0
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    folders = {name: options[name.replace("-", "_")] for name in FRAMEWORKS}
    asked = {name: made for name, made in FRAMEWORKS.items() if folders[name] is not None}
    if options["libraries"]:
        hugging_face.load()
        asked |= dict.fromkeys(hugging_face.LIBRARIES, Library)
    for name, framework in asked.items():
        theirs, rows = framework(folders.get(name, name)), dict[str, str]()
        print(f"\n{theirs.version}\n\n| plan | refused by us | validated | parameters | ours |")
        print("| --- | --- | --- | --- | --- |")
        for said, plan in plans():
            if options["plan"] not in (None, said):
                continue
            made, own = (
                build_config(plan, name),
                str(evaluate_plan(plan)["parameters.total"].number),
            )
            lost = ", ".join(dict.fromkeys(each.key for each in made.lost))
            valid = "" if lost else apart(partial(theirs.valid, made, plan))
            counts, count = theirs.count is not None, ""
            if counts and not lost:
                count = apart(partial(theirs.count, made, plan))
            print(f"| {said} | {lost} | {valid[:160]} | {count[:160]} | {own} |", flush=True)
            wrong = not lost and (valid != "yes" or (counts and count != own))
            good = "equal" if counts else "valid"
            rows[said] = "wrong" if wrong else f"refused: {lost}" if lost else good
            bad += wrong
        before = results.get(name, {}).get("plans", {}) if options["plan"] else {}
        results[name] = {"version": theirs.version, "plans": {**before, **rows}}
    if options["write"]:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    print(f"\n{bad} wrong, of those that are not refused")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
