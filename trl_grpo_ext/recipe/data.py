"""Load a recipe's dataset by name, and map its prompts to the `prompt` column of TRL."""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl

from trl_grpo_ext.assets import resolve
from trl_grpo_ext.recipe.prompts import map_prompts
from trl_grpo_ext.recipe.rates import with_rates
from trl_grpo_ext.recipe.rows import mix_data, select_rows, set_row_numbers
from trl_grpo_ext.support.files import numbered_lines
from trl_grpo_ext.support.text import did_you_mean

if TYPE_CHECKING:
    from datasets import Dataset

    from trl_grpo_ext.recipe.arguments import RecipeArguments

FILE_KINDS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}
# Either file marks a folder written by `save_to_disk`.
SAVED_TO_DISK = ("state.json", "dataset_dict.json")
# Parts of datasets' error messages for files without rows; each file format has its own.
NO_ROWS = (
    "StopIteration",
    "corresponds to no data",
    "No columns to parse",
    "BatchSize must be greater than 0",
)
SPLIT_KEYS = {"train": "dataset_train_split", "evaluate": "--split"}
REASONING_GYM = "reasoning_gym:"
REASONING_GYM_SIZES = {"train": 1000, "test": 100}
# Added to the seed for test problems: far above every seed of a train problem.
REASONING_GYM_TEST_SEED = 100_000_000
# A task counts as exhausted after this many draws per problem asked for.
REASONING_GYM_TRIES = 20

logger = logging.getLogger(__name__)


Purpose = Literal["train", "evaluate"]


def load_data(arguments: RecipeArguments, *, purpose: Purpose = "train") -> dict[str, Any]:
    """Load the splits of a recipe, and map their prompts; keys of the result are split names.

    `dataset_name` is a Hub id; a folder for `load_dataset` or `load_from_disk`; a file, which becomes the training
    split; `bundled:NAME` for data in the package; or `reasoning_gym:TASK` for generated problems, with task options as
    in `reasoning_gym:chain_sum?max_terms=3`. The split `dataset_train_split` must have at least one row. `purpose`
    appears in error messages.

    Raises:
        ValueError: for a missing file, task, split or column, and for data without rows.
    """
    if arguments.datasets:
        return mix_data(arguments, lambda part: load_data(part, purpose=purpose))
    name = arguments.dataset_name or ""
    if name.startswith(REASONING_GYM):
        data = _reasoning_gym(name.removeprefix(REASONING_GYM))
    else:
        data = _load(name, arguments, purpose)
    train = arguments.dataset_train_split
    if train not in data:
        near = did_you_mean(train, data)
        raise ValueError(
            f"The dataset {name!r} has no split {train!r} to {purpose} on ({SPLIT_KEYS[purpose]}). {near}"
        )
    selected, numbers = select_rows(data, arguments)
    rows = selected[train]
    # A stream has no length.
    if hasattr(rows, "__len__") and not len(rows):
        raise _no_rows(name, arguments, purpose)
    mapped = {split: map_prompts(rows, arguments) for split, rows in selected.items()}
    if arguments.rate is not None and purpose == "train":
        mapped[train] = with_rates(mapped[train], arguments.rate, str(arguments.rates_from))
        # Of the rows left, the numbers are unknown.
        numbers.pop(train, None)
    for rows in mapped.values():
        # datasets names every JSON file `json`; reports show this name.
        rows.info.dataset_name = name
    # Last: `map` and `filter` make new datasets, without the attribute.
    for split, own in numbers.items():
        set_row_numbers(mapped[split], own)
    return mapped


def _load(name: str, arguments: RecipeArguments, purpose: Purpose) -> Any:
    from datasets import DatasetDict, load_dataset, load_from_disk

    check_source(name)
    path = Path(resolve(name)).expanduser()
    _warn_of_misspelled(name, path)
    source: dict[str, Any] = {"path": name, "name": arguments.dataset_config}
    if path.is_file():
        source = {
            "path": FILE_KINDS[path.suffix],
            "data_files": {arguments.dataset_train_split: str(path)},
        }
    elif path.exists():
        # datasets takes the folder `.` for no name.
        source["path"] = str(path.absolute().resolve())
    try:
        # `load_dataset` refuses a folder that `save_to_disk` has written.
        if any((path / index).is_file() for index in SAVED_TO_DISK):
            saved = load_from_disk(path)
            if isinstance(saved, DatasetDict):
                return saved
            return {arguments.dataset_train_split: saved}
        data = load_dataset(**source, streaming=arguments.dataset_streaming)
        return _with_dates_as_texts(_with_bytes_as_texts(data), path)
    # datasets raises many kinds of errors, some without a message.
    except Exception as error:
        said = _said(error, path)
        if any(sign in said for sign in NO_ROWS):
            raise _no_rows(name, arguments, purpose) from None
        if path.is_dir() and not isinstance(error.__cause__ or error, OSError):
            said += (
                " Of a folder, datasets reads the data files of all folders below it, such as a run's: name a file "
                "instead, or a folder that holds data alone."
            )
        raise ValueError(f"The dataset {name!r} cannot be loaded: {said}") from error


def _warn_of_misspelled(name: str, path: Path) -> None:
    # `openai/gsm8k` is meant for the Hub; `gsm8k.josnl` may be a misspelled file.
    if path.exists() or "/" in name:
        return
    here = [each.name for each in Path.cwd().iterdir()]
    for alike in difflib.get_close_matches(name, here, n=1):
        logger.warning(
            "There is no %r here, only %r: the dataset is looked for on the Hub.",
            name,
            alike,
        )


def _said(error: Exception, path: Path) -> str:
    """Return an error's first line; for an error in another folder than the dataset's, name the cache of `datasets`."""
    from datasets import config

    # datasets wraps the parser's error, which tells the cause, in one that names nothing.
    cause = error.__cause__ or error
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    said = lines[0]
    is_elsewhere = False
    if isinstance(cause, OSError) and cause.filename:
        is_elsewhere = not Path(cause.filename).is_relative_to(path)
    if is_elsewhere or str(config.HF_DATASETS_CACHE) in said:
        said += f" (datasets keeps what it has read in {config.HF_DATASETS_CACHE}; HF_HOME names another place)"
    return said


def _with_bytes_as_texts(data: Any) -> Any:
    """Cast columns of bytes to text if they decode: some programs write text to parquet files as bytes."""
    from datasets import Value

    # A list of the splits: the loop replaces them.
    for name, rows in list(data.items()):
        for column, feature in (rows.features or {}).items():
            if feature == Value("binary") and hasattr(rows, "__len__"):
                # pyarrow raises a ValueError for bytes that are no text; the column stays bytes.
                with suppress(ValueError):
                    data[name] = data[name].cast_column(column, Value("string"))
    return data


def _with_dates_as_texts(data: Any, path: Path) -> Any:
    """Restore texts of a JSON file that `datasets` has parsed as dates.

    JSON has no dates: the text 1917-10-28 would reach verifiers with a time of day.
    """
    for name, rows in list(data.items()):
        features = rows.features or {}
        # The text of a type also shows dates inside of lists and mappings.
        columns = [
            column for column, feature in features.items() if "timestamp[" in repr(feature)
        ]
        if not columns:
            continue
        texts = None
        # A stream may be larger than memory: it is not read again, and the user is warned.
        if hasattr(rows, "__len__"):
            texts = _rows_of_json(path)
        if texts is not None:
            data[name] = texts
        elif getattr(rows.info, "builder_name", None) == "json":
            logger.warning(
                "datasets has made dates of texts in %s, with a time of day: see what verifiers get. CSV keeps texts.",
                ", ".join(f"`{column}`" for column in columns),
            )
    return data


def _rows_of_json(path: Path) -> Dataset | None:
    """Read a JSON file into a dataset; None for other files, and for a column of mixed types."""
    from datasets import Dataset

    # pyarrow's errors are ValueErrors and TypeErrors.
    with suppress(ValueError, TypeError, AttributeError):
        if path.suffix == ".jsonl":
            return Dataset.from_list([json.loads(line) for _, line in numbered_lines(path)])
        if path.suffix == ".json":
            return Dataset.from_list(json.loads(path.read_bytes()))
    return None


def _no_rows(name: str, arguments: RecipeArguments, purpose: Purpose) -> ValueError:
    split = arguments.dataset_train_split
    lacks = " for which `when` holds" if arguments.when else ""
    return ValueError(
        f"The dataset {name!r} has no rows to {purpose} on in its split {split!r}{lacks}; it needs at least one."
    )


def check_source(name: str) -> None:
    """Raise a ValueError for a bundled name, file or folder that does not exist, and for an unsupported file type."""
    path = Path(resolve(name)).expanduser()
    if path.is_file() and path.suffix not in FILE_KINDS:
        raise ValueError(
            f"Data cannot be loaded from the file {name!r} (dataset_name): it takes a file that ends in "
            f"{', '.join(FILE_KINDS)}, a folder of such files, or a name on the Hub."
        )
    # A name on the Hub has a single slash.
    is_long = (
        name.count("/") > 1 and "://" not in name and not name.startswith(REASONING_GYM)
    )
    begins_as_path = name.startswith(("/", ".", "~"))
    ends_as_file = Path(name).suffix in FILE_KINDS
    is_path = is_long or begins_as_path or ends_as_file
    if is_path and not path.exists():
        raise ValueError(
            f"There is no file or folder {name!r} (dataset_name); the current folder is {Path.cwd()}."
        )


def _reasoning_gym(spec: str) -> dict[str, Dataset]:
    """Generate problems of a reasoning-gym task: splits `train` and `test` with columns `question` and `answer`.

    A test question is neither in train nor in test twice. Each row also has `entry`, the problem's JSON for its scorer.
    """
    from datasets import Dataset

    try:
        from reasoning_gym.factory import DATASETS
    except ImportError:
        raise ValueError(
            "Data from reasoning_gym needs that package: pip install 'trl-grpo-ext[reasoning-gym]'"
        ) from None
    task, _, query = spec.partition("?")
    if task not in DATASETS:
        near = did_you_mean(task, DATASETS)
        raise ValueError(f"reasoning_gym has no task {task!r}. {near}")
    options = {key: number_or_text(value) for key, value in parse_qsl(query)}
    train_size = int(options.pop("train_size", REASONING_GYM_SIZES["train"]))
    test_size = int(options.pop("test_size", REASONING_GYM_SIZES["test"]))
    seed = int(options.pop("seed", 0))
    # reasoning-gym draws item i from seed + i, so neighbouring seeds give nearly the same problems.
    test = _problems(
        task,
        test_size,
        seed + REASONING_GYM_TEST_SEED,
        options,
        distinct=True,
    )
    asked = {problem["question"] for problem in test}
    train = _problems(task, train_size, seed, options, without=asked)
    return {"train": Dataset.from_list(train), "test": Dataset.from_list(test)}


def _drawn(
    task: str, size: int, seed: int, options: Mapping[str, Any]
) -> Iterable[Mapping[str, Any]]:
    """Return a reasoning-gym task's items, repeated questions among them."""
    import reasoning_gym

    try:
        items: Iterable[Mapping[str, Any]] = reasoning_gym.create_dataset(
            task, size=size, seed=seed, **options
        )
    except (TypeError, AssertionError) as error:
        raise ValueError(
            f"reasoning_gym:{task} does not take these options: {error}"
        ) from None
    return items


def _problems(
    task: str,
    size: int,
    seed: int,
    options: Mapping[str, Any],
    *,
    without: Collection[str] = (),
    distinct: bool = False,
) -> list[dict[str, Any]]:
    seen = set(without)
    problems: list[dict[str, Any]] = []
    for item in _drawn(task, size * REASONING_GYM_TRIES, seed, options):
        if len(problems) == size:
            return problems
        question = item["question"]
        if question not in seen:
            answer = item["answer"]
            problem = {
                "question": question,
                "entry": json.dumps(item, default=str),
                "answer": None if answer is None else str(answer),
            }
            problems.append(problem)
        if distinct:
            seen.add(question)
    logger.warning(
        "reasoning_gym:%s gave %d of the %d problems asked for; it has no more.",
        task,
        len(problems),
        size,
    )
    return problems


def number_or_text(value: str) -> Any:
    """Parse text as an int, a float, or true or false; return other text unchanged."""
    # `int` first: `float` reads `3`, too, as 3.0.
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(value.lower(), value)
