"""Build a tiny vision language model from the bundled model and a random vision tower, and sums with pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, concatenate_datasets
from PIL import Image
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    CLIPImageProcessorPil,
    CLIPVisionConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
)

SIDE, PATCH = 28, 14
TEMPLATE = """{{- bos_token }}
{%- for message in messages %}
    {{- '<|' + message['role'] + '|>' }}
    {%- if message['content'] is string %}
        {{- message['content'] }}
    {%- else %}
        {%- for block in message['content'] %}
            {{- '<image>' if block['type'] == 'image' else block['text'] }}
        {%- endfor %}
    {%- endif %}
    {{- eos_token }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>' }}
{%- endif %}"""


def make_vlm(language_model: str, folder: Path) -> None:
    """Write a LLaVA model with the language model's answers, and its processor, to a folder."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(language_model)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    text = AutoModelForCausalLM.from_pretrained(language_model)
    text.resize_token_embeddings(len(tokenizer))
    vision = CLIPVisionConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=SIDE,
        patch_size=PATCH,
        projection_dim=16,
    )
    image_token = tokenizer.convert_tokens_to_ids("<image>")
    model = LlavaForConditionalGeneration(
        LlavaConfig(
            vision_config=vision, text_config=text.config, image_token_index=image_token
        )
    )
    model.model.language_model.load_state_dict(text.model.state_dict())
    model.tie_weights()
    model.generation_config = text.generation_config
    model.save_pretrained(folder)
    size = {"height": SIDE, "width": SIDE}
    LlavaProcessor(
        image_processor=CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=size),
        tokenizer=tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    ).save_pretrained(folder)


def picture(number: int) -> Image.Image:
    """Make a picture with a distinct colour."""
    return Image.new(
        "RGB", (SIDE, SIDE), (number * 37 % 256, number * 91 % 256, number * 5 % 256)
    )


def with_pictures(rows: Any) -> Dataset:
    """Add a distinct picture to each row of a dataset."""
    pictures = Dataset.from_dict(
        {"image": [picture(number) for number in range(len(rows))]}
    )
    return concatenate_datasets([rows, pictures], axis=1)
