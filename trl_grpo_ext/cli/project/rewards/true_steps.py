"""A verifier for this project: it scores the steps before the answer."""

import re
from itertools import accumulate

from trl_grpo_ext import Sample, verifier
from trl_grpo_ext.sample import last_message

STEP = re.compile(r"(\d+)\+(\d+)=(\d+)")


@verifier
def true_steps(sample: Sample) -> float:
    """Return the share of true steps: the prompt 20+16+20 needs `20+16=36`, then `36+20=56`.

    Only steps of the prompt's own sum count; otherwise `1+1=2` would earn a reward for every prompt.
    """
    asked = [int(number) for number in re.findall(r"\d+", last_message(sample.prompt))]
    totals = list(accumulate(asked))
    right = list(zip(totals, asked[1:], totals[1:], strict=False))
    said = [tuple(map(int, step)) for step in STEP.findall(sample.text)]
    true = sum(one == other for one, other in zip(said, right, strict=False))
    return true / max(len(said), len(right), 1)
