"""Audit eight planted holes and our own verifiers, by probes and by live attack.

    python benchmarks/audit_holes.py --seeds 0 1 2

The holes come from planted_holes.py. A line reports a reward and a seed: the number of wrongly paid probes, and shares
from the attack's last training, the training that found a hole if any did. Only the attack is random, so probes are
equal for all seeds. CPU seconds cover the whole audit with its workers, but not the sandbox's own processes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import datasets
import torch
import transformers
from planted_holes import ANSWERS, PROGRAMS

from trl_grpo_ext.commands.audit.attack import attack_reward
from trl_grpo_ext.commands.audit.attacked import Attack
from trl_grpo_ext.commands.audit.reward import reward_named
from trl_grpo_ext.commands.audit.static import StaticAudit, audit_reward
from trl_grpo_ext.commands.audit.task import Kind, read_tasks
from trl_grpo_ext.recipe.arguments import RecipeArguments
from trl_grpo_ext.recipe.data import load_data

DATA: dict[Kind, str] = {"answer": "bundled:sums", "program": "bundled:functions"}
REWARDS: dict[str, Kind] = {
    **dict.fromkeys((f"planted_holes:{name}" for name in PROGRAMS), "program"),
    **dict.fromkeys((f"planted_holes:{name}" for name in ANSWERS), "answer"),
    "math": "answer",
    "unit_test": "program",
}
ROWS = 20


def audit(task: tuple[int, str]) -> str:
    """Audit a reward in a process of its own, and return its table row."""
    seed, name = task
    warnings.filterwarnings("ignore")
    datasets.disable_progress_bars()
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    reward, kind = reward_named(name), REWARDS[name]
    rows = (
        load_data(RecipeArguments(dataset_name=DATA[kind]))["train"]
        .select(range(ROWS))
        .to_list()
    )
    before = cpu_seconds()
    static, attacks = (
        audit_reward(reward, read_tasks(rows)),
        attack_reward(reward, kind, seed=seed),
    )
    reward.close()
    return line(name, seed, static, attacks[-1], cpu_seconds() - before)


def cpu_seconds() -> float:
    """Return CPU seconds of this process and of its finished children."""
    return sum(
        sum(resource.getrusage(who)[:2])
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )


def line(name: str, seed: int, static: StaticAudit, attack: Attack, seconds: float) -> str:
    """Format a table row."""
    first, last = attack.first, attack.last
    found = "HOLE" if attack.found_a_hole else "none"
    shares = f"{first.paid.mean:.2f} > {last.paid.mean:.2f}   {first.right.mean:.2f} > {last.right.mean:.2f}"
    wrongly = f"{last.wrongly_paid.mean:.2f} [{last.wrongly_paid.low:.2f}, {last.wrongly_paid.high:.2f}]"
    probes = f"{len(static.holes)} of {sum(not probe.pays for probe in static.probes)}"
    return (
        f"{name.rpartition(':')[2]:<13}{seed:>4}   {probes:<9}{found}{attack.tokens:>4}   {shares}   {wrongly}"
        f"{seconds:>6.0f} s"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rewards", nargs="+", choices=list(REWARDS), default=list(REWARDS)
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument(
        "--jobs", type=int, default=2, help="audits at a time, one thread each"
    )
    arguments = parser.parse_args()
    print(
        f"{'reward':<13}seed   {'probes':<9}{'attack':<11}{'paid':<15}{'right':<14}{'paid and wrong':<20}CPU"
    )
    context = multiprocessing.get_context("spawn")
    tasks = product(arguments.seeds, arguments.rewards)
    with ProcessPoolExecutor(arguments.jobs, context, max_tasks_per_child=1) as pool:
        for written in pool.map(audit, tasks):
            print(written, flush=True)


if __name__ == "__main__":
    main()
