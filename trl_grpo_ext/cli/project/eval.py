"""Compare the trained model with its starting model on prompts from the test split."""

import sys

from trl_grpo_ext.cli.main import main

sys.exit(
    main(
        [
            "eval",
            "--config",
            "recipe.yaml",
            "--model",
            "bundled:tiny_reasoner",
            "runs/PROJECT",
            *sys.argv[1:],
        ]
    )
)
