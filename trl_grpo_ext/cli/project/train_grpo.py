"""Train like recipe.yaml, as a script: a place for code that a recipe cannot express."""

import torch
from datasets import load_dataset

from rewards.true_steps import true_steps
from trl_grpo_ext import RewardMix, RewardTerm, VerifiedGRPOConfig, VerifiedGRPOTrainer
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.rewards import MathVerifier

# More threads slow down a model this small.
torch.set_num_threads(1)
mix = RewardMix(
    [
        RewardTerm(name="accuracy", verifier=MathVerifier(column="answer")),
        RewardTerm(name="true_steps", verifier=true_steps, weight=0.1, gate="accuracy"),
    ]
)
data = load_dataset("data").map(
    lambda row: {"prompt": [{"role": "user", "content": row["question"]}]}
)
trainer = VerifiedGRPOTrainer(
    model=resolve("bundled:tiny_reasoner"),
    reward_funcs=mix,
    args=VerifiedGRPOConfig(
        output_dir="runs/PROJECT",
        max_steps=40,
        per_device_train_batch_size=64,
        num_generations=8,
        max_completion_length=48,
        learning_rate=1e-4,
        logging_steps=5,
        save_strategy="no",
        report_to="none",
        # On a GPU, remove these three lines.
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
    ),
    train_dataset=data["train"],
)
trainer.train()
trainer.save_model()
