"""A verifier of this project: are the steps that lead to the answer true?"""

import re
from itertools import accumulate

from trl_grpo_ext import Sample, verifier
from trl_grpo_ext.sample import last_message

STEP = re.compile(r"(\d+)\+(\d+)=(\d+)")


@verifier
def true_steps(sample: Sample) -> float:
    """The share of true steps: for 20+16+20, these are `20+16=36` and `36+20=56`, in this order.

    Only the steps of the sum that was asked for count. If any true sum did, `1+1=2` would be paid everywhere.
    """
    asked = [int(number) for number in re.findall(r"\d+", last_message(sample.prompt))]
    totals = list(accumulate(asked))
    right = list(zip(totals, asked[1:], totals[1:], strict=False))
    said = [tuple(map(int, step)) for step in STEP.findall(sample.text)]
    true = sum(one == other for one, other in zip(said, right, strict=False))
    return true / max(len(said), len(right), 1)
