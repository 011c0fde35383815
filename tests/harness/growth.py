"""Tell work in linear time from quadratic work by CPU seconds."""

import time
from collections.abc import Callable

# Work this short needs no comparison: quadratic work of our lengths takes many seconds.
SHORT = 0.2


def grows_linearly(work: Callable[[int], object], repeats: int) -> bool:
    """Tell whether `work(repeats)` takes CPU time in proportion to `repeats`, or less.

    `work` runs with an eighth of the repeats too: linear work then takes 8 times as long,
    quadratic work 64 times. A slow machine and the tracing of a coverage run stretch both
    alike, so no number of seconds is a limit.
    """
    # The part comes first: imports and caches of a first call belong to neither.
    part = _cpu_seconds(work, repeats // 8)
    whole = _cpu_seconds(work, repeats)
    return whole < SHORT or whole < 24 * part


def _cpu_seconds(work: Callable[[int], object], repeats: int) -> float:
    started = time.process_time()
    work(repeats)
    return time.process_time() - started
