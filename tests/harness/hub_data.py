"""Datasets in the Hub's layout, and flags by which a shipped recipe runs on this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

Row = dict[str, Any]

MBPP = [
    {
        "task_id": 901,
        "text": "Write a function to double a number.",
        "code": "def double(x):\n    return 2 * x",
        "test_list": [
            "assert double(2) == 4",
            "assert double(0) == 0",
            "assert double(-1) == -2",
        ],
        "test_setup_code": "",
        "challenge_test_list": [],
    },
]

MACHINE = ("--use_cpu", "true", "--bf16", "false", "--use_vllm", "false")

SMALL = {
    "max_steps": 2,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "num_generations": 4,
    "max_completion_length": 8,
    "num_generations_eval": 1,
    "per_device_eval_batch_size": 8,
    "dtype": "float32",
    "torch_threads": 1,
    "dataloader_pin_memory": "false",
    "gradient_checkpointing": "false",
    "write_report": "false",
    "save_strategy": "no",
    "output_dir": "run",
}


def on_disk(
    folder: Path,
    rows: Sequence[Row],
    config: str | None,
    splits: Sequence[str] = ("train", "test"),
) -> str:
    """Write a dataset in the Hub's layout, with all rows in each split, and return its name."""
    config = config or "default"
    (folder / config).mkdir(parents=True)
    # A batch needs two prompts.
    rows = [*rows, *rows]
    files = [{"split": split, "path": f"{config}/{split}.jsonl"} for split in splits]
    card = yaml.safe_dump({"configs": [{"config_name": config, "data_files": files}]})
    (folder / "README.md").write_text(f"---\n{card}---\n")
    for split in splits:
        (folder / config / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return str(folder)
