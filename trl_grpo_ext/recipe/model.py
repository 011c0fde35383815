"""The model of a recipe: what it is loaded with, and an adapter with the model that it is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoProcessor
from transformers.utils.peft_utils import find_adapter_config_file
from trl import get_quantization_config
from trl.trainer.utils import create_model_from_path

from trl_grpo_ext.recipe.recipe import Recipe


def set_model_arguments(recipe: Recipe) -> None:
    """What `trl grpo` does with the model's part of a config."""
    recipe.training.model_init_kwargs = {
        "revision": recipe.model.model_revision,
        "trust_remote_code": getattr(recipe.training, "trust_remote_code", False),
        "attn_implementation": recipe.model.attn_implementation,
        "dtype": recipe.model.dtype,
        **(recipe.training.model_init_kwargs or {}),
    }
    quantization = get_quantization_config(recipe.model)
    if quantization is not None:  # here, because the trainer of TRL 1.6 does not take it as an argument
        recipe.training.model_init_kwargs["quantization_config"] = quantization


def model_arguments(recipe: Recipe, *, trains: bool) -> dict[str, Any]:
    """The trainer's arguments for the recipe's model; TRL itself loads any that is no adapter.

    `trains` is whether an adapter goes on being trained.
    """
    name = str(recipe.model.model_name_or_path)
    if find_adapter_config_file(name) is None:
        return {"model": name}
    from peft import PeftConfig, PeftModel

    config, training = PeftConfig.from_pretrained(name), recipe.training
    # As TRL loads it, which knows vision language models too.
    settings = {**training.model_init_kwargs, "revision": config.revision, "device_map": None}
    base = create_model_from_path(config.base_model_name_or_path, **settings)
    training.model_init_kwargs = None
    found: dict[str, Any] = {}
    if (Path(name) / "tokenizer_config.json").is_file():
        processor = AutoProcessor.from_pretrained(name, padding_side="left", truncation_side="left")
        tokens = len(getattr(processor, "tokenizer", processor))
        if tokens > base.get_input_embeddings().weight.shape[0]:
            base.resize_token_embeddings(tokens)
        found["processing_class"] = processor
    return {"model": PeftModel.from_pretrained(base, name, is_trainable=trains), **found}


def model_error(name: str, error: Exception, key: str) -> Exception:
    """What to say of a model that cannot be loaded; `key` names it. Of a folder that is there, the error tells."""
    if Path(name).is_dir():
        return error
    said = str(error).strip().splitlines()[0]
    return ValueError(f"The model {name!r} ({key}) is no folder here, and cannot be loaded: {said}")
