"""A model that learns to call a tool: what its environment says of it before and after training, with intervals.

The bundled tiny reasoner is first shown two habits, for a minute or two: to answer a sum at once, which it is bad at,
and to call the tool `add` with the sum, half of the time each. Then GRPO trains it by the environment's own reward,
and by a process term behind it as a gate. Nothing tells it to call.

Usage::

    python benchmarks/agent.py [--steps 20]

It prints the shares of solved sums and of completions that call, and ends with status 1 if the share of solved sums has
not risen beyond its interval.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from datasets import load_dataset
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

from trl_grpo_ext import RewardMix, RewardTerm, Sample, VerifiedGRPOConfig, VerifiedGRPOTrainer, verifier
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.rewards import EnvironmentReward, ToolCallsVerifier
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.scorecard import concatenate

CALL, CALL_END = "<call>", "</call>"
SHOWN_STEPS, BATCH = 400, 32
IGNORED = -100  # the label of tokens that the loss leaves out


class Adder:
    """Is solved where the tool has come to the row's solution."""

    def reset(self, **row: Any) -> None:
        self.solution, self.found = str(row["solution"]), ""

    def add(self, s: str) -> str:
        """Add numbers.

        Args:
            s: The numbers with plus signs between them.
        """
        self.found = str(sum(int(number) for number in s.split("+")))
        return self.found

    def get_reward(self) -> bool:
        return self.found == self.solution

    @property
    def state(self) -> dict[str, str]:
        return {"found": self.found}


@verifier
def calls(sample: Sample) -> bool:
    """Whether the completion calls a tool."""
    return sample.messages is not None


def agent_tokenizer() -> Any:
    """The bundled tokenizer, with a template that renders calls, and one that reads them."""
    tokenizer = AutoTokenizer.from_pretrained(resolve("bundled:tiny_reasoner"))
    written = "message['content'] + (message['tool_calls'] | tojson if message.get('tool_calls') else '') +"
    tokenizer.chat_template = tokenizer.chat_template.replace("message['content'] +", written)
    call = {"open": CALL, "close_pattern": CALL_END, "repeats": True, "content": "json"}
    call["transform"] = {"type": "function", "function": "{content}"}
    fields = {"tool_calls": call, "content": {"close_pattern": "$", "content": "text"}}
    defaults = {"role": "assistant"}
    tokenizer.response_template = {"defaults": defaults, "start_anchor": "<|assistant|>", "fields": fields}
    return tokenizer


def shown(tokenizer: Any, chance: random.Random) -> tuple[list[int], list[int]]:
    """A sum in one of the two habits: token ids, and the labels of those that the model writes."""
    numbers = [chance.randint(1, 30) for _ in range(chance.randint(3, 5))]
    asked, total = "+".join(map(str, numbers)), sum(numbers)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": asked}], add_generation_prompt=True)
    prompt = list(prompt["input_ids"] if hasattr(prompt, "keys") else prompt)

    def tokens(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    answer = [*tokens(rf"\boxed{{{total}}}"), tokenizer.eos_token_id]
    if chance.random() < 0.5:
        return prompt + answer, [IGNORED] * len(prompt) + answer
    call = json.dumps({"name": "add", "arguments": {"s": asked}})
    called = [*tokens(f"{CALL}{call}{CALL_END}"), tokenizer.eos_token_id]
    result = [*tokens(f"<|tool|>{total}"), tokenizer.eos_token_id, *tokens("<|assistant|>")]
    labels = [IGNORED] * len(prompt) + called + [IGNORED] * len(result) + answer
    return prompt + called + result + answer, labels


def show_habits(model: Any, tokenizer: Any) -> None:
    """Train the model on both habits."""
    chance, optimizer = random.Random(0), torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    for step in range(SHOWN_STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * (1 - step / SHOWN_STEPS)
        pairs = [shown(tokenizer, chance) for _ in range(BATCH)]
        ids, labels = ([torch.tensor(pair[place]) for pair in pairs] for place in (0, 1))
        padded = pad_sequence(ids, batch_first=True, padding_value=tokenizer.pad_token_id)
        wanted = pad_sequence(labels, batch_first=True, padding_value=IGNORED)
        loss = model(input_ids=padded, attention_mask=padded != tokenizer.pad_token_id, labels=wanted).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            print(f"shown {step}: loss {loss.item():.3f}", flush=True)


MIX = RewardMix(
    [
        RewardTerm(name="solved", verifier=EnvironmentReward()),
        RewardTerm(name="clean", verifier=ToolCallsVerifier(at_most=1, marker=CALL), weight=0.1, gate="solved"),
        RewardTerm(name="calls", verifier=calls, weight=0),
    ]
)


def main() -> int:
    """Show the habits, train, and print both evaluations; returns the exit status."""
    parser = argparse.ArgumentParser(description="Train a tiny model to call a tool.")
    parser.add_argument("--steps", type=int, default=20)
    steps = parser.parse_args().steps
    warnings.filterwarnings("ignore", "You are using 'environment_factory'")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokenizer = agent_tokenizer()
    model = AutoModelForCausalLM.from_pretrained(resolve("bundled:tiny_reasoner"), dtype=torch.float32)
    show_habits(model, tokenizer)
    sums = load_dataset(resolve("bundled:sums"))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(f"{folder}/shown")
        args = VerifiedGRPOConfig(
            output_dir=f"{folder}/run", max_steps=steps, per_device_train_batch_size=32, num_generations=8,
            per_device_eval_batch_size=50, num_generations_eval=2, max_completion_length=140, learning_rate=1e-4,
            use_cpu=True, bf16=False, report_to="none", save_strategy="no", logging_steps=10, disable_tqdm=True,
        )  # fmt: skip
        trainer = VerifiedGRPOTrainer(
            f"{folder}/shown", MIX, args, sums["train"], sums["test"].select(range(100)),
            environment_factory=Adder, processing_class=tokenizer,
        )  # fmt: skip
        trainer.evaluate()
        trainer.train()
        trainer.evaluate()
        cards = list(RecordedRun(Path(args.output_dir)).cards("eval"))
    half = len(cards) // 2
    before, after = (reduce_card(concatenate(part), {}) for part in (cards[:half], cards[half:]))
    for name in ("solved", "clean", "calls"):
        print(f"{name}: {before.terms[name].scores.interval} -> {after.terms[name].scores.interval}")
    first, last = before.terms["solved"].scores.interval, after.terms["solved"].scores.interval
    return int(first is None or last is None or last.low <= first.high)


if __name__ == "__main__":
    raise SystemExit(main())
