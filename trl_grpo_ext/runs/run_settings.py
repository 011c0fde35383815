"""Collect a run's settings that its figures depend on, with its verifiers' identities, for `scorecards/run.json`.

Verifiers with equal identities give equal verdicts, so recorded verdicts can be used again. An identity is a digest,
because a verifier's arguments may hold secrets that do not belong in a run's folder. `rewards`, for people to read, has
only arguments of this package's verifiers that are plain values and whose names do not look like a secret's.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from trl_grpo_ext.assets import short_name
from trl_grpo_ext.mix.gate import Gate, When
from trl_grpo_ext.mix.reward_plan import RewardPlan
from trl_grpo_ext.mix.schedule import Schedule
from trl_grpo_ext.mix.shape import NAMES, Shape
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.function import FunctionVerifier, PlainFunction
from trl_grpo_ext.sample import prompt_key
from trl_grpo_ext.support.files import write_json
from trl_grpo_ext.support.setting_checks import is_number
from trl_grpo_ext.support.text import shortened
from trl_grpo_ext.support.version import __version__

# What generation_kwargs may set in place of TRL's own settings.
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
# Settings that explain figures and findings; none that only decides what is written, or when a run ends.
SETTINGS = (
    "num_generations",
    "num_generations_eval",
    "scale_rewards",
    "multi_objective_aggregation",
    "loss_type",
    "beta",
    "epsilon",
    "top_entropy_quantile",
    "entropy_coef",
    "learning_rate",
    "warmup_steps",
    "weight_decay",
    "max_grad_norm",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "optim",
    "num_iterations",
    "steps_per_generation",
    "gradient_accumulation_steps",
    *SAMPLING,
    "max_completion_length",
    "mask_truncated_completions",
    "drop_dead_groups",
    "learnable_rows",
    "rows_floor",
    "rows_by",
    "shuffle_dataset",
    "max_steps",
    "logging_steps",
    "seed",
)


def run_settings(
    args: Any,
    plan: RewardPlan,
    world_size: int,
    model: Any = None,
    rows: Any = None,
    tokenizer: Any = None,
    eval_rows: Any = None,
) -> dict[str, Any]:
    """Collect a run's settings as plain values, after the names of model and dataset, if known.

    `reward_functions` are the names of TRL's reward functions, in order, with the mix's terms. `verifiers` maps each
    term to its verifier's identity, null if unknown. `rewards` describes the reward functions for people.
    """
    found: dict[str, Any] = {}
    model_name = short_name(str(getattr(model, "name_or_path", "")))
    if model_name:
        found["model"] = model_name
    dataset = _name_of_rows(rows)
    if dataset:
        found["dataset"] = dataset
    for name in SETTINGS:
        setting = getattr(args, name, None)
        found[name] = setting.value if isinstance(setting, Enum) else setting
    found.update(_of_generation(args))
    if hasattr(model, "parameters"):
        parameters = list(model.parameters())
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        found["parameters"] = sum(parameter.numel() for parameter in parameters)
        found["trained_parameters"] = sum(parameter.numel() for parameter in trained)
        found["trained_dtype"] = _most_frequent_dtype(trained)
    found["lora_alpha"] = _lora_alpha(model)
    found["dropout"] = _dropout(model)
    found["evaluation_in_training"] = _share_in_training(rows, eval_rows)
    found["evaluated_completions"] = _evaluated_completions(args, eval_rows)
    found["unused_chat_template"] = _leaves_template_unused(rows, tokenizer)
    found["has_system_prompt"] = _has_system_prompt(rows)
    found["other_end_of_turn"] = _other_end_of_turn(
        getattr(tokenizer, "tokenizer", tokenizer)
    )
    found["world_size"] = world_size
    found["reward_functions"] = plan.names
    found["verifiers"] = _identities(plan)
    found["rewards"] = described_rewards(plan)
    return found


def _of_generation(args: Any) -> dict[str, Any]:
    """Return generation_kwargs without objects, which have no plain value, and what it sets in place of TRL's own."""
    generation = getattr(args, "generation_kwargs", None) or {}
    plain = {}
    in_force = {}
    for name, value in generation.items():
        told = _told(value)
        if told != {}:
            plain[name] = told
        if name in SAMPLING:
            in_force[name] = told
    return {"generation_kwargs": plain, **in_force}


def _identities(plan: RewardPlan) -> dict[str, str | None]:
    if plan.mix is None:
        return {}
    return {term.name: verifier_identity(verifier) for term, verifier in plan.mix.verifiers}


def _leaves_template_unused(rows: Any, tokenizer: Any) -> bool:
    """Check whether prompts are plain text beside a tokenizer with a chat template. Streamed rows are not looked at."""
    if (
        not getattr(tokenizer, "chat_template", None)
        or not hasattr(rows, "__len__")
        or not len(rows)
    ):
        return False
    return isinstance(rows[0].get("prompt"), str)


def _has_system_prompt(rows: Any) -> bool:
    """Check whether the first prompt begins with a system message. Streamed rows are not looked at."""
    if not hasattr(rows, "__len__") or not len(rows):
        return False
    prompt = rows[0].get("prompt")
    return isinstance(prompt, list) and bool(prompt) and prompt[0].get("role") == "system"


ANSWERED = ({"role": "user", "content": "2+2"}, {"role": "assistant", "content": "4444"})


def _other_end_of_turn(tokenizer: Any) -> str:
    """Return the token with which the chat template ends a turn, if it is not the end token; empty if unknown."""
    try:
        text = tokenizer.apply_chat_template(list(ANSWERED), tokenize=False)
        behind = text.rpartition(ANSWERED[-1]["content"])[2]
        first = tokenizer.convert_ids_to_tokens(
            tokenizer.encode(behind, add_special_tokens=False)[0]
        )
        is_other = first in tokenizer.get_added_vocab() and first != tokenizer.eos_token
    # There is no tokenizer, template or end of a turn, or a user's template takes no such conversation.
    except Exception:
        return ""
    return first if is_other else ""


def _most_frequent_dtype(parameters: Sequence[Any]) -> str:
    """Return the dtype of most trained values, such as `bfloat16`; empty without any."""
    sizes: Counter[str] = Counter()
    for parameter in parameters:
        sizes[str(parameter.dtype).removeprefix("torch.")] += parameter.numel()
    return max(sizes, key=lambda dtype: sizes[dtype], default="")


def _lora_alpha(model: Any) -> float | None:
    """Return the factor of a model's first LoRA adapter, before its division by the rank; None without an adapter."""
    for adapter in (getattr(model, "peft_config", None) or {}).values():
        alpha = getattr(adapter, "lora_alpha", None)
        return alpha if is_number(alpha) else None
    return None


def _dropout(model: Any) -> dict[str, float]:
    """Return the dropouts above 0 of a model's config, such as `attention_dropout`, by name."""
    config: Any = getattr(model, "config", None)
    known = config.to_dict() if hasattr(config, "to_dict") else {}
    dropouts = {}
    for name, value in known.items():
        is_dropout = "dropout" in name or name.endswith("_pdrop")
        if is_dropout and is_number(value) and value > 0:
            dropouts[name] = value
    return dropouts


# Rows that are compared: their prompts are hashed in a second.
MOST_TRAINED_ROWS, MOST_EVALUATED_ROWS = 50_000, 512


def _share_in_training(rows: Any, eval_rows: Any) -> float | None:
    """Return the share of evaluation prompts that are training prompts too; None if unknown.

    Streams are not read. Prompts that are mostly equal do not tell rows apart, as in an environment.
    """
    if (
        not hasattr(rows, "__getitem__")
        or not hasattr(eval_rows, "__getitem__")
        or isinstance(eval_rows, Mapping)
    ):
        return None
    evaluated = _prompt_keys(eval_rows, MOST_EVALUATED_ROWS)
    if not evaluated or 2 * len(set(evaluated)) < len(evaluated):
        return None
    trained = frozenset(_prompt_keys(rows, MOST_TRAINED_ROWS))
    return sum(key in trained for key in evaluated) / len(evaluated)


def _evaluated_completions(args: Any, eval_rows: Any) -> int | None:
    """Return the number of completions of an evaluation; None for a stream, and for several data sets."""
    if not isinstance(eval_rows, Sized) or isinstance(eval_rows, Mapping):
        return None
    each = getattr(args, "num_generations_eval", None) or args.num_generations
    return len(eval_rows) * int(each)


def _prompt_keys(rows: Any, most: int) -> list[int]:
    columns = rows[:most]
    if not isinstance(columns, Mapping) or "prompt" not in columns:
        return []
    return [prompt_key(prompt) for prompt in columns["prompt"]]


def _name_of_rows(rows: Any) -> str:
    """Return a dataset's name, else its number of rows: datasets from files or scripts have no name."""
    about = getattr(rows, "info", None)
    name = getattr(about, "dataset_name", None) or ""
    # A dataset from JSON files has the builder's name, `json`.
    if name and name != getattr(about, "builder_name", None):
        return str(name)
    if not hasattr(rows, "__len__"):
        return ""
    return f"{len(rows):,} rows"


def write_settings(run_folder: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
    """Write a run's settings to `scorecards/run.json`, as a whole file or no file.

    If earlier sessions wrote the file, a term whose verifier changed since gets no identity.
    """
    path = Path(run_folder) / "scorecards" / "run.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        agreed = _agreed(settings.get("verifiers", {}), path)
        settings = {**settings, "verifiers": agreed}
    write_json(path, settings)


def _agreed(verifiers: Mapping[str, str | None], path: Path) -> dict[str, str | None]:
    """Map each term to its verifier's identity if no session changed it, else None."""
    try:
        earlier = json.loads(path.read_text(encoding="utf-8"))
        before = dict(earlier["verifiers"])
    # The file is torn, or an earlier version wrote it without identities.
    except (ValueError, KeyError, TypeError):
        return dict.fromkeys(verifiers)
    agreed = before | dict(verifiers)
    for term, identity in verifiers.items():
        if before.get(term, identity) != identity:
            agreed[term] = None
    return agreed


def described_rewards(plan: RewardPlan) -> list[dict[str, Any]]:
    """Describe each reward function as plain values, in a recipe's words; `weight` is the weight at the start.

    A term of the mix has its `verifier` (class) and the verifier's `settings`, or the terms that it combines. Absent
    properties, such as a gate, are left out.
    """
    terms = {}
    if plan.mix is not None:
        terms = {term.name: term for term in plan.mix.terms}
    described = []
    # TRL appends the reward functions of environments that score themselves, with weight 1.
    weights = chain(plan.weights, repeat(1.0))
    for name, function, weight in zip(plan.names, plan.functions, weights, strict=False):
        own = {"verifier": _path(function)}
        if name in terms:
            own = _described_term(terms[name])
        described.append({"name": name, "weight": weight, **own})
    return described


def functions_beside(settings: Mapping[str, Any]) -> set[str]:
    """Return the names of a run's reward functions beside its mix; empty for a run without a mix."""
    if not settings.get("verifiers"):
        return set()
    of_mix = set(settings["verifiers"])
    for described in settings.get("rewards") or ():
        if "combine" in described:
            of_mix.add(described["name"])
    return {name for name in settings.get("reward_functions") or () if name not in of_mix}


def _described_term(term: RewardTerm) -> dict[str, Any]:
    found = described_verifier(term.verifier) if term.verifier else {}
    if term.combine:
        found["combine"] = {term.combine.kind: list(term.combine.terms)}
    if isinstance(term.weight, Schedule):
        found["schedule"] = asdict(term.weight)
    elif callable(term.weight):
        found["schedule"] = _path(term.weight)
    if isinstance(term.gate, Gate):
        found["gate"] = asdict(term.gate)
    if isinstance(term.when, When):
        found["when"] = {
            column: list(map(_told, values)) for column, values in term.when.conditions
        }
    if term.shapes:
        found["shape"] = list(map(_described_shape, term.shapes))
    if term.on_unscored != "void_row":
        found["on_unscored"] = term.on_unscored
    if term.only:
        found["only"] = term.only
    if term.score_range:
        found["score_range"] = list(term.score_range)
    return found


def _described_shape(shape: Shape) -> str:
    """Describe a packaged shape by its settings, and a user's function by its import path."""
    if type(shape) in NAMES.values():
        return str(shape)
    return _path(shape)


# Keys of a described reward that name the judge and its weight.
JUDGING = ("name", "verifier", "settings", "weight", "weight_at_end")


def conditions_of(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return a described reward's other properties: gate, `when`, shape and the like."""
    return {key: item for key, item in described.items() if key not in JUDGING}


SECRET = re.compile(
    r"key|token(?!s\b)|secret|passw|header|auth|credential|cookie|bearer", re.IGNORECASE
)
# A URL's credentials stand before an @, or in the query.
URL = re.compile(r"(\w+://)(?:[^/\s]*@)?([^\s?#]*)[?#]?\S*")
# Characters of a described text.
MOST_CHARS = 300


def described_verifier(verifier: Verifier) -> dict[str, Any]:
    """Describe a verifier: its class or function and, for this package's classes, its public settings.

    Examples:
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> described_verifier(RegexVerifier(pattern="[0-9]+"))["settings"]["pattern"]
        '[0-9]+'
    """
    if isinstance(verifier, FunctionVerifier):
        settings = {"isolated": verifier.isolated, "timeout": verifier.timeout}
        return {"verifier": _path(verifier.function), "settings": settings}
    if isinstance(verifier, PlainFunction):
        return {"verifier": _path(verifier.function), "settings": {}}
    return {"verifier": _path(type(verifier)), "settings": _public_arguments(verifier)}


def _public_arguments(verifier: Any) -> dict[str, Any]:
    is_ours = type(verifier).__module__.startswith("trl_grpo_ext.")
    if not is_ours or not is_dataclass(verifier):
        return {}
    public = {}
    for name, value in _arguments(verifier).items():
        told = _told(value)
        # An empty mapping is a value that is not plain.
        if told != {} and not SECRET.search(name):
            public[name] = told
    return public


def without_credentials(text: str) -> str:
    """Remove credentials from the URLs in a text.

    Examples:
        >>> without_credentials("a judge at https://me:word@host/v1?key=1")
        'a judge at https://host/v1'
    """
    return URL.sub(r"\1\2", text)


def _told(value: Any) -> Any:
    """Return a plain value, or a list of plain values, without credentials; an empty mapping for any other value."""
    if isinstance(value, str):
        return shortened(without_credentials(value), MOST_CHARS)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Verifier):
        return described_verifier(value)
    if isinstance(value, list | tuple):
        return list(map(_told, value))
    return {}


def _path(found: Any) -> str:
    """Return the import path of a class or function, or else the path of an object's class."""
    if not hasattr(found, "__qualname__"):
        found = type(found)
    return f"{found.__module__}.{found.__qualname__}"


# The metric's key does not change a verdict.
NO_ARGUMENT = ("name",)


class _UnknownError(Exception):
    """A value has no comparable form."""


def verifier_identity(verifier: Verifier) -> str | None:
    """Digest a verifier's class, arguments and code to a short text; None if a part is unknown.

    For this package's verifiers, the package version stands for the code. For others, it is the verifier's source file,
    without its imports. A verifier that is defined in the executed script, or inside a function, has no identity.

    Examples:
        >>> from trl_grpo_ext.rewards import MathVerifier
        >>> strict = verifier_identity(MathVerifier(mode="boxed_only"))
        >>> strict == verifier_identity(MathVerifier(mode="boxed_only", name="strict"))
        True
        >>> strict == verifier_identity(MathVerifier())
        False
    """
    try:
        found = _identity(verifier)
    # A user's verifier may have any attributes.
    except Exception:
        return None
    encoded = json.dumps(found, sort_keys=True).encode()
    digest = hashlib.sha256(encoded).hexdigest()
    return f"{found[0]} {digest[:16]}"


def _identity(verifier: Verifier) -> list[Any]:
    if isinstance(verifier, FunctionVerifier):
        return [*_code(verifier.function), verifier.isolated, verifier.timeout]
    return [*_code(type(verifier)), _described(_arguments(verifier))]


def _arguments(verifier: Any) -> Mapping[str, Any]:
    if is_dataclass(verifier):
        state = {}
        for field in fields(verifier):
            if field.init:
                state[field.name] = getattr(verifier, field.name)
    else:
        state = verifier.__getstate__() or {}
    if not isinstance(state, Mapping):
        raise _UnknownError
    return {key: value for key, value in state.items() if key not in NO_ARGUMENT}


def _code(found: type | Callable[..., object]) -> list[str]:
    """Identify a class's or a function's code: import path, then package version or digest of the source file."""
    module = found.__module__
    name = found.__qualname__
    # `<locals>` or `<lambda>` in the name mean code inside a function.
    if module == "__main__" or "<" in name:
        raise _UnknownError
    if module.startswith("trl_grpo_ext."):
        return [f"{module}.{name}", __version__]
    source = inspect.getsourcefile(found)
    if source is None:
        raise _UnknownError
    digest = hashlib.sha256(Path(source).read_bytes()).hexdigest()
    return [f"{module}.{name}", digest]


def _described(value: Any) -> Any:
    """Encode a value as JSON so that only equal values have equal encodings."""
    # An enum's member may be a number or a text, too, but its class counts.
    if isinstance(value, Enum):
        return {"enum": [*_code(type(value)), value.name]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        pairs = []
        for key, item in value.items():
            pairs.append((json.dumps(_described(key)), _described(item)))
        return {"map": sorted(pairs)}
    if isinstance(value, list | tuple):
        return [_described(item) for item in value]
    if isinstance(value, set | frozenset):
        items = [json.dumps(_described(item), sort_keys=True) for item in value]
        return {"set": sorted(items)}
    if isinstance(value, Verifier):
        return {"verifier": _identity(value)}
    return _described_object(value)


def _described_object(value: Any) -> Any:
    if isinstance(value, Path):
        return {"path": str(value)}
    if isinstance(value, re.Pattern):
        pattern = value.pattern if isinstance(value.pattern, str) else value.pattern.hex()
        return {"pattern": [pattern, value.flags]}
    if isinstance(value, type) or inspect.isfunction(value):
        return {"code": _code(value)}
    if is_dataclass(value):
        state = []
        for field in fields(value):
            state.append((field.name, _described(getattr(value, field.name))))
        return {"dataclass": [*_code(type(value)), state]}
    raise _UnknownError
