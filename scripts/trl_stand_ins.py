"""Stand-ins for the Hub downloads of TRL's tests: tiny random models, and a few lines of text.

This is a pytest plugin (`-p trl_stand_ins`) for `scripts/trl_tests.py`. The models' folder has the layout of the Hub's
cache, so TRL's tests load them by their usual names. With `TRL_TESTS_WITH=verified` in the environment,
`VerifiedGRPOTrainer` and `VerifiedGRPOConfig` replace TRL's own classes.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from functools import partialmethod
from pathlib import Path
from typing import Any

OWNER = "trl-internal-testing"
REVISION = "0" * 40
VERIFIED = os.environ.get("TRL_TESTS_WITH") == "verified"

END, PAD = "<|im_end|>", "<|endoftext|>"
MARKS = {
    151_643: PAD,
    151_644: "<|im_start|>",
    151_645: END,
    151_657: "<tool_call>",
    151_658: "</tool_call>",
}
MARKS |= {
    151_665: "<tool_response>",
    151_666: "</tool_response>",
    151_667: "<think>",
    151_668: "</think>",
}
# Tests of tools write completions as Qwen token ids. The first 256 ids are bytes, in GPT-2's order.
TOKENS = {
    293: " b", 314: " {", 330: ' "', 397: ">\n", 411: "out", 450: "de", 497: '",', 522: "</", 606: "name", 788: '":',
    894: " any", 927: "sh", 944: "'t", 1318: "text", 1414: " know", 1513: " don", 2765: " won", 4913: '{"', 5212: ' {"',
    5392: " tool", 6023: "hi", 6659: "call", 7692: "async", 9520: "step", 11248: "}}\n", 13477: "crement",
    14172: "tool", 16252: " increment", 16370: "arguments", 17453: "Done", 22785: "_tool", 35744: "increment",
    64648: "multiply", 93054: "_multiply", 95642: '"}}\n',
}  # fmt: skip

SHAPE: dict[str, Any] = {
    "hidden_size": 8, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "bos_token_id": None, "dtype": "bfloat16",
}  # fmt: skip
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
# Each model's chat template (from TRL) and the settings of its class besides `SHAPE`. The model's name contains its
# class. Only Qwen3 models have Qwen's token ids, since a large vocabulary slows down every step. Vision models are not
# made: their tests are left out.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "tiny-Qwen2ForCausalLM-2.5": ("qwen2_5", {}),
    "tiny-Qwen2ForSequenceClassification-2.5": ("qwen2_5", {"num_labels": 1}),
    "tiny-Qwen3ForCausalLM": ("qwen3", {}),
    "tiny-Qwen3ForSequenceClassification": ("qwen3", {"num_labels": 1}),
    "tiny-Qwen3MoeForCausalLM": ("qwen3", EXPERTS | {"num_experts": 4}),
    "tiny-Cohere2ForCausalLM": ("cohere2", {"logit_scale": 1.0}),
    "tiny-Gemma2ForCausalLM": ("gemma", {}),
    "tiny-Glm4MoeForCausalLM": (
        "glm4moe",
        EXPERTS | {"n_routed_experts": 4, "head_dim": 2},
    ),
    "tiny-GptOssForCausalLM": (
        "gptoss",
        {"num_experts_per_tok": 2, "num_local_experts": 4},
    ),
    "tiny-LlamaForSequenceClassification-3.2": ("llama3_2", {"num_labels": 1}),
    "tiny-RemoteForCausalLM": ("llama3_2", {}),
}
REMOTE = """from transformers import LlamaConfig, LlamaForCausalLM


class RemoteConfig(LlamaConfig):
    model_type = "remote"


class RemoteForCausalLM(LlamaForCausalLM):
    config_class = RemoteConfig
"""

# Number of words from each line of `import this` that form a prompt of TRL's dataset `zen`.
WORDS = (4, 2, 3, 1, 4, 3, 1, 4, 3, 3, 2, 6, 6, 11, 2, 4, 7, 5, 5)


def make_models(cache: Path) -> None:
    """Create missing models in the layout of the Hub's cache."""
    import torch
    import transformers
    from trl import chat_template_utils

    templates = Path(chat_template_utils.__file__).parent / "chat_templates"
    for name, (template, settings) in MODELS.items():
        folder = cache / f"models--{OWNER}--{name}"
        snapshot = folder / "snapshots" / REVISION
        if (folder / "refs" / "main").exists():
            continue
        torch.manual_seed(0)
        tokenizer = make_tokenizer(
            (templates / f"{template}.jinja").read_text(encoding="utf-8"),
            wide="Qwen3" in name,
        )
        tokenizer.save_pretrained(snapshot)
        ends = {
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        }
        shape = (
            SHAPE
            | ends
            | {"vocab_size": max(tokenizer.get_vocab().values()) + 1}
            | settings
        )
        remote = "Remote" in name
        model_class = getattr(
            transformers, "LlamaForCausalLM" if remote else name.split("-")[1]
        )
        model_class(model_class.config_class(**shape)).to(torch.bfloat16).save_pretrained(
            snapshot
        )
        if remote:
            make_remote(snapshot)
        (folder / "refs").mkdir()
        # Written last: marks the model as complete.
        (folder / "refs" / "main").write_text(REVISION)


def make_remote(snapshot: Path) -> None:
    """Add custom model code to a snapshot; it loads only with `trust_remote_code`."""
    (snapshot / "modeling_remote.py").write_text(REMOTE)
    config = json.loads((snapshot / "config.json").read_text())
    of = {"AutoConfig": "RemoteConfig", "AutoModelForCausalLM": "RemoteForCausalLM"}
    config |= {"model_type": "remote", "architectures": ["RemoteForCausalLM"]}
    config["auto_map"] = {auto: f"modeling_remote.{own}" for auto, own in of.items()}
    (snapshot / "config.json").write_text(json.dumps(config))


def make_tokenizer(template: str, *, wide: bool) -> Any:
    """Make a byte-level tokenizer; `wide` adds Qwen's token ids, for tests that write completions as ids."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    of_byte = bytes_to_unicode()
    vocabulary = {character: index for index, character in enumerate(of_byte.values())}
    if wide:
        vocabulary |= {
            "".join(of_byte[byte] for byte in text.encode()): index
            for index, text in TOKENS.items()
        }
    vocabulary |= {
        text: index if wide else len(of_byte) + place
        for place, (index, text) in enumerate(MARKS.items())
    }
    tokenizer = Tokenizer(BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([mark for mark in MARKS.values() if mark.startswith("<|")])
    tokenizer.add_tokens([mark for mark in MARKS.values() if not mark.startswith("<|")])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=PAD)
    fast.chat_template = template
    return fast


def load_dataset(
    path: str, name: str, split: str | None = None, *, streaming: bool = False
) -> Any:
    """Return the dataset `zen` like `datasets.load_dataset`: 17 training rows and 2 test rows."""
    from datasets import Dataset, DatasetDict, IterableDatasetDict

    if path != f"{OWNER}/zen":
        raise FileNotFoundError(f"There is no stand-in for the data set {path}.")
    with contextlib.redirect_stdout(io.StringIO()):
        import this
    lines = "".join(this.d.get(character, character) for character in this.s).splitlines()[
        2:
    ]
    prompts: list[Any] = [
        " ".join(line.split()[:count]) for line, count in zip(lines, WORDS, strict=True)
    ]
    if name == "conversational_prompt_only":
        prompts = [[{"role": "user", "content": prompt}] for prompt in prompts]
    data = DatasetDict(
        train=Dataset.from_dict({"prompt": prompts[:17]}),
        test=Dataset.from_dict({"prompt": prompts[17:]}),
    )
    if streaming:
        data = IterableDatasetDict(
            {part: rows.to_iterable_dataset() for part, rows in data.items()}
        )
    return data if split is None else data[split]


def unknown_package(name: str) -> Any:
    """Answer False for a package check that an installed TRL no longer has, but tests of an earlier TRL call."""
    if name.startswith("is_") and name.endswith("_available"):
        return lambda: False
    raise AttributeError(name)


def pytest_configure() -> None:
    """Replace dataset loading and, if asked, TRL's trainer, before tests are imported."""
    import datasets
    import trl
    from trl import import_utils

    datasets.load_dataset = load_dataset
    import_utils.__getattr__ = unknown_package
    if VERIFIED:
        from trl_grpo_ext import VerifiedGRPOConfig, VerifiedGRPOTrainer

        trl.GRPOTrainer, trl.GRPOConfig = VerifiedGRPOTrainer, VerifiedGRPOConfig
    # Faster tests: a CPU has no fast bf16, and an epoch is enough.
    trl.GRPOConfig.__init__ = partialmethod(
        trl.GRPOConfig.__init__, bf16=False, num_train_epochs=1
    )
