"""Cut the bundled model down to its first layer, for trainings whose answers do not matter."""

from __future__ import annotations

from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer


def first_layer(model: str, folder: Path) -> None:
    """Write the model with only its first layer, and its tokenizer, to a folder."""
    cut = AutoModelForCausalLM.from_pretrained(model, num_hidden_layers=1)
    cut.save_pretrained(folder)
    AutoTokenizer.from_pretrained(model).save_pretrained(folder)
