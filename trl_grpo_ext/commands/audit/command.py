"""`trl-grpo-ext audit`: probe a reward for holes before training on it."""

from __future__ import annotations

import argparse
import sys
import warnings
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from trl_grpo_ext.commands.arguments import NO_TRAINING, read_recipe
from trl_grpo_ext.commands.exit_status import FINE, FOUND, REFUSED, refusing
from trl_grpo_ext.support.text import did_you_mean

if TYPE_CHECKING:
    from trl_grpo_ext.commands.audit.attacked import Attack
    from trl_grpo_ext.commands.audit.task import Task
    from trl_grpo_ext.protocol import Verifier
    from trl_grpo_ext.recipe.arguments import RecipeArguments

ROWS = 50
DESCRIPTION = (
    "Give a reward right answers in several forms, which it must pay, and wrong ones of known kinds, which it must "
    "not; with --attack, also train a tiny bundled policy against it. Ends with status 0 if nothing was found, 1 if "
    "something was, and 2 if the arguments are wrong, or if the reward cannot be audited."
)
EXAMPLES = (
    "Examples: audit math; audit my_rewards.substring --data my.jsonl --gold label; audit --config my.yaml --attack. "
    "A function runs in a worker process and may do what you may; our own verifiers run programs in the sandbox."
)
BUNDLED = ("bundled:sums", "bundled:functions")

HELP = "attack a reward before it is trained on"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "audit",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    add = parser.add_argument
    add(
        "reward",
        nargs="?",
        metavar="REWARD",
        help="a name of `trl-grpo-ext recipes --verifiers`, `module.attribute`, or an entry of a recipe's rewards; by "
        "default the sum of the recipe's rewards",
    )
    _add_data(parser)
    add(
        "--skip",
        action="append",
        default=[],
        metavar="PROBE",
        help="a probe that does not apply to this reward",
    )
    add("--limit", type=int, default=ROWS, metavar="ROWS", help=f"rows to probe ({ROWS})")
    add(
        "--attack",
        action="store_true",
        help="train a tiny policy against it too, on bundled data: some minutes of CPU",
    )
    add("--seed", type=int, default=0, metavar="N", help="the seed of the attack (0)")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--cases", action="store_true", help="print the worst cases in full")
    shown.add_argument("--json", action="store_true", help="print JSON, with all")


def _add_data(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say on which data the reward is audited."""
    data = parser.add_mutually_exclusive_group()
    data.add_argument(
        "--config",
        metavar="RECIPE",
        help="the recipe whose data, and perhaps rewards, are audited",
    )
    data.add_argument(
        "--data",
        metavar="DATA",
        help="a file, a folder, a name on the Hub, or bundled:NAME",
    )
    parser.add_argument(
        "--prompt",
        metavar="COLUMN",
        help="the column of --data that holds the prompts (prompt)",
    )
    parser.add_argument(
        "--gold",
        metavar="COLUMN",
        help="the column of the right answers, for the reward too (what it says itself, else solution, else answer)",
    )


def run(arguments: argparse.Namespace) -> int:
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    with refusing():
        audited = _read(arguments)
        with closing(audited.reward):
            return _audit(audited, arguments)


class _Audited(NamedTuple):
    reward: Verifier
    tasks: list[Task]
    # A description of the data.
    data: str
    # The columns of the right answers.
    golds: tuple[str, ...]


def _audit(audited: _Audited, arguments: argparse.Namespace) -> int:
    from trl_grpo_ext.commands.audit.printed import print_attacks, print_audit
    from trl_grpo_ext.commands.audit.reward import MixReward, is_shipped
    from trl_grpo_ext.commands.audit.static import NotAuditedError, audit_reward
    from trl_grpo_ext.support.printer import print_json

    reward = audited.reward
    # A NotAuditedError of the probes ends the command: the reward cannot judge these rows.
    static = audit_reward(reward, audited.tasks, audited.data, skip=arguments.skip)
    if not arguments.json:
        print_audit(
            static,
            reward.__name__,
            cases=arguments.cases,
            is_shipped=is_shipped(reward),
            is_sum=isinstance(reward, MixReward),
        )
    attacks = []
    not_attacked = None
    if arguments.attack:
        try:
            attacks = _attack(audited, arguments.seed)
        except NotAuditedError as error:
            not_attacked = str(error)
    if arguments.json:
        record = {
            "reward": reward.__name__,
            "static": static.to_record(),
            "not_attacked": not_attacked,
            "attacks": [attack.to_record() for attack in attacks],
        }
        print_json(record)
    else:
        print_attacks(attacks)
    if not_attacked is not None:
        print(f"Not attacked: {not_attacked}", file=sys.stderr)
    if not static.is_clean or any(attack.found_a_hole for attack in attacks):
        return FOUND
    all_told = not_attacked is None and all(attack.judged_any for attack in attacks)
    return FINE if all_told else REFUSED


def _attack(audited: _Audited, seed: int) -> list[Attack]:
    from trl_grpo_ext.commands.audit.attack import attack_reward

    # In a pipe, stdout is kept back: the lines of the probes would come after those of the attack.
    sys.stdout.flush()
    print("attacking: this takes a minute or more ...", file=sys.stderr, flush=True)
    return attack_reward(
        audited.reward, audited.tasks[0].kind, seed=seed, gold_columns=audited.golds
    )


def _read(arguments: argparse.Namespace) -> _Audited:
    """Check the arguments, then load reward and tasks; a ValueError names the wrong argument."""
    from trl_grpo_ext.commands.audit.probes import check_skipped
    from trl_grpo_ext.commands.audit.reward import (
        MixReward,
        check_attack,
        program_reader,
        reward_named,
    )
    from trl_grpo_ext.commands.audit.task import read_tasks

    if arguments.limit < 2:
        raise ValueError(f"--limit is a number of rows, 2 or more; got {arguments.limit}.")
    if arguments.reward is None and arguments.config is None:
        raise ValueError(
            "Name a reward, such as `math` or `module.attribute`, or a recipe: --config RECIPE."
        )
    if arguments.prompt is not None and arguments.data is None:
        raise ValueError("--prompt names a column of --data; a recipe has `prompt_column`.")
    if arguments.data is not None:
        from trl_grpo_ext.recipe.data import check_source

        # A missing file is reported at once, before TRL's import, which takes seconds.
        check_source(arguments.data)
    named = None if arguments.reward is None else reward_named(arguments.reward)
    if arguments.config is not None:
        recipe = read_recipe(arguments.config, NO_TRAINING)
        reward, data = named or MixReward(recipe.mix, recipe.name), recipe.data
    else:
        assert named is not None
        reward, data = named, _data(arguments.data or _suitable(named), arguments.prompt)
    rows, golds = _with_gold(_rows(data, arguments.limit), reward, arguments.gold)
    reward.check_columns([name for name in rows[0] if name != "prompt"])
    tasks = _of_one_kind(read_tasks(rows, golds, program_reader(reward)))
    check_skipped(arguments.skip, tasks[0].kind)
    if arguments.attack:
        check_attack(reward, tasks[0].kind)
    return _Audited(reward, tasks, data.dataset_name or "the recipe's datasets", golds)


def _with_gold(
    rows: list[dict[str, Any]], reward: Verifier, gold: str | None
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Copy the column named by `--gold` to the names that this reward reads; return the rows and the gold columns.

    Raises:
        ValueError: if the prompt column, the gold column, or a parameter's column is missing.
    """
    from trl_grpo_ext.commands.audit.reward import (
        check_parameters,
        gold_columns,
        read_under,
    )

    golds = gold_columns(reward)
    if "prompt" not in rows[0]:
        raise ValueError(
            f"There is no column `prompt`: name that of the prompts (--prompt). {did_you_mean('', rows[0])}"
        )
    if gold is not None:
        if gold not in rows[0]:
            raise ValueError(
                f"There is no column `{gold}` (--gold). {did_you_mean(gold, rows[0])}"
            )
        golds = (gold, *read_under(reward, rows[0]))
        rows = [row | dict.fromkeys(golds, row[gold]) for row in rows]
    check_parameters(reward, rows[0])
    return rows, golds


def _of_one_kind(tasks: list[Task]) -> list[Task]:
    """Keep tasks of the most frequent kind, answers or programs, and print how many rows this leaves out."""
    kinds = [task.kind for task in tasks]
    kind = max(kinds, key=kinds.count)
    left_out = len(kinds) - kinds.count(kind)
    if left_out:
        print(
            f"{left_out} of {len(kinds)} rows are not of the kind `{kind}`, and are not probed.",
            file=sys.stderr,
        )
    return [task for task in tasks if task.kind == kind]


def _rows(data: RecipeArguments, limit: int) -> list[dict[str, Any]]:
    """Load up to `limit` training rows, evenly spaced over the data; from a stream, the first rows."""
    from trl_grpo_ext.recipe.data import load_data
    from trl_grpo_ext.recipe.rows import spread

    return list(spread(load_data(data)[data.dataset_train_split], limit))


def _data(name: str, prompt: str | None = None) -> RecipeArguments:
    from trl_grpo_ext.recipe.recipe import announce_loading

    announce_loading()
    from trl_grpo_ext.recipe.arguments import RecipeArguments

    return RecipeArguments(dataset_name=name, prompt_column=prompt)


def _suitable(reward: Verifier) -> str:
    """Return the first bundled dataset whose columns satisfy the reward; `sums` satisfies a reward without needs."""
    for name in BUNDLED:
        (row,) = _rows(_data(name), 1)
        columns = [column for column in row if column != "prompt"]
        # The reward lacks a column in these data; the next may have it.
        with suppress(ValueError):
            reward.check_columns(columns)
            return name
    raise ValueError(
        f"{reward.__name__!r} can judge none of the bundled data; name yours: --data."
    )
