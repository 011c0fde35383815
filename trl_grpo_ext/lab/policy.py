"""The policy: a softmax over ten logits, in the form of a causal language model with one-token completions.

The backbone outputs the number 1 for every token, whatever the prompt, and the head is a column of weights, so the
weights of the ten actions *are* the logits. Importing this module registers the model with transformers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GenerationConfig,
    GenerationMixin,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput

from trl_grpo_ext.lab.landscape import ACTIONS

PROMPT = "<go>"
END = "<end>"
VOCABULARY = (*map(str, ACTIONS), PROMPT, END)
# The logit of tokens that are no action.
NEVER = -1e9


class LabConfig(PretrainedConfig):  # type: ignore[misc]  # transformers is not typed here
    """The policy's configuration, without settings beyond those of transformers."""

    model_type = "trl_grpo_ext_lab"

    def __init__(self, **kwargs: Any) -> None:
        self.vocab_size = len(VOCABULARY)
        self.hidden_size = 1
        self.num_hidden_layers = 0
        # transformers 4 ties input and output embeddings by default.
        super().__init__(**kwargs | {"tie_word_embeddings": False})
        # TRL loads its reference model by the class named here, and searches transformers only.
        self.architectures = [AutoModelForCausalLM.__name__]


class ConstantBackbone(PreTrainedModel):  # type: ignore[misc]
    """A backbone whose hidden states are all ones, shape (n, t, 1), for n sequences of t tokens."""

    config_class = LabConfig

    def __init__(self, config: LabConfig) -> None:
        super().__init__(config)
        # Keep a saved buffer in the backbone: without backbone weights in the checkpoint, transformers 4 takes the file
        # for a checkpoint of the backbone alone.
        self.register_buffer("one", torch.ones(1))
        self.post_init()

    def forward(self, input_ids: torch.Tensor, **_: Any) -> BaseModelOutput:
        return BaseModelOutput(last_hidden_state=self.one.expand(*input_ids.shape, 1))


class LabPolicy(PreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """A causal language model that answers with an action from ten logits, and ignores its prompt."""

    config_class = LabConfig
    base_model_prefix = "model"

    def __init__(self, config: LabConfig) -> None:
        super().__init__(config)
        self.model = ConstantBackbone(config)
        self.lm_head = torch.nn.Linear(1, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self) -> torch.nn.Module:
        return self.lm_head

    def forward(self, input_ids: torch.Tensor, **_: Any) -> CausalLMOutput:
        hidden = self.model(input_ids).last_hidden_state
        return CausalLMOutput(logits=self.lm_head(hidden))

    def prepare_inputs_for_generation(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        # `attention_mask` is a parameter because generate() refuses arguments that are not parameters.
        return {"input_ids": input_ids}

    @property
    def action_logits(self) -> torch.Tensor:
        """Return the logits of actions 1 to 10, shape (10,), detached."""
        return self.lm_head.weight.detach()[: len(ACTIONS), 0].clone()


AutoConfig.register(LabConfig.model_type, LabConfig, exist_ok=True)
AutoModelForCausalLM.register(LabConfig, LabPolicy, exist_ok=True)


def save_policy(
    folder: str | os.PathLike[str], logits: Sequence[float] | None = None
) -> None:
    """Write a policy and its tokenizer to a folder, from which TRL loads policy and reference model.

    The ten logits are equal by default.

    Raises:
        ValueError: if `logits` has not ten values.
    """
    if logits is None:
        logits = [0.0] * len(ACTIONS)
    if len(logits) != len(ACTIONS):
        raise ValueError(f"The lab's policy has {len(ACTIONS)} logits, got {len(logits)}.")
    end = VOCABULARY.index(END)
    special = {"bos_token_id": VOCABULARY.index(PROMPT), "pad_token_id": end}
    policy = LabPolicy(LabConfig(eos_token_id=end, **special))
    with torch.no_grad():
        policy.lm_head.weight[:, 0] = torch.tensor([*logits, NEVER, NEVER])
    # An action ends its completion, so no completion counts as cut.
    policy.generation_config = GenerationConfig(
        eos_token_id=[*range(len(ACTIONS)), end], **special
    )
    policy.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer with a token per action; every other word becomes the prompt token."""
    ids = {token: number for number, token in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=PROMPT))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=PROMPT,
        bos_token=PROMPT,
        eos_token=END,
        pad_token=END,
        padding_side="left",
    )
