"""Run the corpus of attacks and harmless programs at an isolation level, and count held programs by category.

    python benchmarks/sandbox_attacks.py --isolation namespaces [FOLDER_OR_JSONL]

Prints this process's memory before and after, and processes left behind.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
from sandbox_bait import leftover_processes
from sandbox_corpus import load_corpus, run_corpus, summary

from trl_grpo_ext.doctor import probe_level, shown_text
from trl_grpo_ext.sandbox.isolation import Isolation
from trl_grpo_ext.sandbox.local import LocalSandbox


def main() -> int:
    """Probe the isolation, run the corpus and print results; return 1 if any program was not held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isolation", choices=("full", "namespaces", "landlock"), default="full")
    parser.add_argument("--size", type=int, default=4, help="programs at a time")
    parser.add_argument("corpus", nargs="?", type=Path, help="a folder of JSON files or a JSONL file")
    arguments = parser.parse_args()
    isolation = Isolation[arguments.isolation.upper()]
    level = probe_level(isolation)
    # Without these walls, some programs would harm this machine.
    if not level.holds:
        print(f"{isolation} does not hold here: {shown_text(level.missing)}")
        return 2
    programs = load_corpus(arguments.corpus)
    before, started = psutil.Process().memory_info().rss, time.perf_counter()
    with closing(LocalSandbox(arguments.size, isolation=isolation)) as sandbox:
        records = run_corpus(sandbox, programs)
    seconds, after = time.perf_counter() - started, psutil.Process().memory_info().rss
    print(f"{isolation}: {len(records)} of {len(programs)} programs in {seconds:.0f} s, {arguments.size} at a time")
    print("\n".join(summary(records)))
    attacks = [record for record in records if record.category != "benign"]
    benign = [record for record in records if record.category == "benign"]
    print(f"attacks held off: {sum(each.held for each in attacks)} of {len(attacks)}")
    print(f"harmless programs that ended as they should: {sum(each.held for each in benign)} of {len(benign)}")
    slowest = sorted(records, key=lambda each: each.seconds)[-3:]
    print(f"slowest: {', '.join(f'{each.id} {each.seconds:.1f} s' for each in slowest)}")
    print(f"memory of this process: {before >> 20} MiB before, {after >> 20} MiB after")
    print(f"processes left: {leftover_processes() or 'none'}")
    return int(not all(record.held for record in records))


if __name__ == "__main__":
    sys.exit(main())
