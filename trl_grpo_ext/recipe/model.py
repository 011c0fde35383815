"""A recipe's model: loading arguments, and adapters with their base model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoProcessor
from transformers.utils.peft_utils import find_adapter_config_file
from trl import get_quantization_config
from trl.trainer.utils import create_model_from_path

from trl_grpo_ext.recipe.recipe import Recipe


def set_model_arguments(recipe: Recipe) -> None:
    """Set `model_init_kwargs` from the recipe's model settings, as `trl grpo` does."""
    recipe.training.model_init_kwargs = {
        "revision": recipe.model.model_revision,
        "trust_remote_code": getattr(recipe.training, "trust_remote_code", False),
        "attn_implementation": recipe.model.attn_implementation,
        "dtype": recipe.model.dtype,
        # Last: keys that the recipe writes in `model_init_kwargs` win.
        **(recipe.training.model_init_kwargs or {}),
    }
    quantization = get_quantization_config(recipe.model)
    # The trainer of TRL 1.6 has no argument for quantization.
    if quantization is not None:
        recipe.training.model_init_kwargs["quantization_config"] = quantization


def model_arguments(recipe: Recipe, *, trains: bool) -> dict[str, Any]:
    """Return the trainer's `model` argument, with `processing_class` for an adapter with its own tokenizer.

    A plain model is passed by name, and TRL loads it. An adapter is loaded here with its base model; `trains` makes it
    trainable.
    """
    name = str(recipe.model.model_name_or_path)
    if find_adapter_config_file(name) is None:
        return {"model": name}
    from peft import PeftConfig, PeftModel

    config = PeftConfig.from_pretrained(name)
    settings = {
        **recipe.training.model_init_kwargs,
        "revision": config.revision,
        # TRL's default on a GPU, `auto`, spreads the model over all GPUs: ranks could not share them.
        "device_map": None,
    }
    # TRL's own loader also handles vision language models.
    base = create_model_from_path(config.base_model_name_or_path, **settings)
    # TRL warns of settings for loading a model that is loaded already.
    recipe.training.model_init_kwargs = None
    found: dict[str, Any] = {}
    if (Path(name) / "tokenizer_config.json").is_file():
        processor = AutoProcessor.from_pretrained(
            name, padding_side="left", truncation_side="left"
        )
        tokenizer = getattr(processor, "tokenizer", processor)
        tokens = len(tokenizer)
        rows = base.get_input_embeddings().weight.shape[0]
        # Never shrink: many models have more rows than tokens, for speed.
        if tokens > rows:
            base.resize_token_embeddings(tokens)
        found["processing_class"] = processor
    # After the embeddings have their size: the adapter may hold rows of them.
    found["model"] = PeftModel.from_pretrained(base, name, is_trainable=trains)
    return found


def model_error(name: str, error: Exception, key: str) -> Exception:
    """Return the error for a model that cannot be loaded: a folder's original error, else a ValueError naming `key`."""
    if Path(name).is_dir():
        return error
    said = str(error).strip().splitlines()[0]
    return ValueError(
        f"The model {name!r} ({key}) is no folder here, and cannot be loaded: {said}"
    )
