"""Write recorded runs for report tests: planted verdicts and texts, with the real mix and recorder."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from windows import Planted

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Scorecard, Status, Verdict
from trl_grpo_ext.mix import linear
from trl_grpo_ext.runs.recorder import LogRecorder, Recorder
from trl_grpo_ext.runs.run_settings import write_settings

GROUP = 4

HOSTILE = [
    "</script><script>window.pwned = 1</script>",
    "<!-- <script> --><![CDATA[ ]]>",
    '<img src=x onerror="window.pwned = 1"><svg onload="window.pwned = 1">',
    "<style>*{display:none}</style><base href=//evil.example><meta http-equiv=refresh content=0>",
    "line\u2028separator\u2029paragraph\u0085next",
    "\ud800 lone \udfff surrogates \ud83d",
    "nul\0 bell\a \x1b[31mred\x1b[0m \r\n carriage\rreturn",
    "\u202eright to left\u202c \u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \u2067isolate",
    "Z" + "\u0351\u0352" * 2000,
    "\U0001f600\U0001f469\u200d\U0001f469\u200d\U0001f467" * 40,
    "&lt;b&gt; &amp; {{7*7}} ${7*7} %s {% raw %}",
    "__proto__ constructor toString",
    "",
    "   ",
    "\n" * 3000,
    "w" * 200_000,
    "\u6f22\u5b57" * 20_000,
]


RIGHT = Verdict(status=Status.CORRECT, score=1.0, answer="42", details={"rule": "boxed"})
WRONG = Verdict(
    status=Status.INCORRECT, score=0.0, answer="</td><b>41</b>", reason="differs"
)
HALF = Verdict(status=Status.PARTIAL, score=0.5, reason="test_2_failed")
UNREAD = Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_boxed")
SLOW = Verdict(status=Status.TIMEOUT, score=0.0, reason="deadline", seconds=5.0)
BROKEN = Verdict(
    status=Status.ERROR, score=None, blame=Blame.GRADER, reason="sandbox_failed"
)
NO_GOLD = Verdict(
    status=Status.SKIPPED, score=None, blame=Blame.DATA, reason="gold_unparseable"
)
HACK = Verdict(
    status=Status.INCORRECT,
    score=0.0,
    answer="exit(0)",
    reason="passes_naively",
    details={"naive_grader": "passed"},
)
VERDICTS = [RIGHT, WRONG, HALF, UNREAD, SLOW, BROKEN, NO_GOLD, HACK]


def mix() -> RewardMix:
    """Make a mix of a main term, a fading term, a penalty and a shadow term."""
    return RewardMix(
        [
            RewardTerm(name="accuracy", verifier=Planted("accuracy")),
            RewardTerm(
                name="thinks",
                verifier=Planted("thinks"),
                weight=linear(0.3, 0.0, until=0.5),
            ),
            RewardTerm(name="short", verifier=Planted("short"), weight=-0.1),
            RewardTerm(name="strict", verifier=Planted("strict"), weight=0.0),
        ]
    )


def card(
    step: int,
    verdicts: Callable[[random.Random], Verdict],
    *,
    progress: float = 0.0,
    groups: int = 2,
    texts: list[str] | None = None,
    mode: Any = "train",
    seed: int = 0,
) -> Scorecard:
    """Make a batch with `accuracy` verdicts drawn by `verdicts`, and advantages with sum 0 in each group."""
    rng = random.Random(f"{seed} {step} {mode}")
    samples = []
    for place in range(groups * GROUP):
        found = verdicts(rng)
        strict = WRONG if found is RIGHT and rng.random() < 0.3 else found
        number = step * groups + place // GROUP
        text = (
            texts[(step * groups * GROUP + place) % len(texts)]
            if texts
            else f"<think>step {step}, sample {place}</think> \\boxed{{42}}"
        )
        planted = {
            "accuracy": found,
            "strict": strict,
            "thinks": rng.choice([RIGHT, WRONG]),
            "short": HALF,
        }
        samples.append(
            Sample(
                text=text,
                prompt=[
                    {"role": "system", "content": "Answer."},
                    {"role": "user", "content": f"What is {number % 9}?"},
                ],
                completion_ids=list(range(1 + len(text) // 4))[:4000],
                truncated=rng.random() < 0.1,
                row=planted,
                group=number + (10_000 if mode == "eval" else 0),
                step=step,
                prefill="<think>" if place == 0 else "",
            )
        )
    scored = mix().score(samples, progress, step=step, mode=mode)
    scored = replace(
        scored,
        samples=tuple(
            replace(s, row={"solution": "42", "</script>": "<b>"}) for s in samples
        ),
    )
    return scored.with_advantages(
        [(-1.0) ** place * (1 + place // 2 + step / 100) for place in range(len(samples))]
    )


def any_verdict(rng: random.Random) -> Verdict:
    return rng.choice(VERDICTS)


def record(
    folder: Path, *cards: Scorecard, logs: bool = True, findings: bool = True
) -> Path:
    """Write a run folder with these batches."""
    recorder = Recorder(folder)
    for one in cards:
        recorder.on_batch(one)
    if not cards:
        (folder / "scorecards").mkdir(parents=True)
    write_settings(
        folder,
        {"num_generations": GROUP, "beta": 0.04, "max_steps": 8, "num_iterations": 1},
    )
    if logs:
        log = LogRecorder(folder)
        for one in cards:
            log.on_log(
                one.step or 0,
                {
                    "loss": 0.1,
                    "entropy": 0.5,
                    "kl": 0.01,
                    "grad_norm": 0.3,
                    "step_time": float("nan"),
                },
            )
    if findings:
        (folder / "findings.jsonl").write_text(finding_lines(), encoding="utf-8")
    return folder


def finding_lines() -> str:
    found = {
        "code": "unparseable_flood",
        "step": 3,
        "severity": "warning",
        "sentence": "31 % of `accuracy` are unparseable <script>window.pwned = 1</script>",
        "numbers": {"share": 0.31},
        "action": "Say how the answer is to be given.",
        "docs": "javascript:window.pwned=1",
    }
    critical = found | {
        "code": "reward_hacking",
        "step": 6,
        "severity": "critical",
        "sentence": "Read them.",
    }
    return json.dumps(found) + "\n" + json.dumps(critical) + '\n{"code": "torn'


def rich_run(folder: Path, *, steps: int = 8, groups: int = 2, seed: int = 0) -> Path:
    """Write a run with all kinds of verdicts, hostile texts, moving weights, evaluations and findings."""
    cards = [
        card(
            step,
            any_verdict,
            progress=step / steps,
            groups=groups,
            texts=HOSTILE,
            seed=seed,
        )
        for step in range(steps)
    ]
    return record(
        folder,
        card(0, any_verdict, mode="eval", seed=seed),
        *cards,
        card(steps, any_verdict, mode="eval", seed=seed),
    )


def _alone(one: Scorecard, **changes: Any) -> Scorecard:
    return replace(one, samples=tuple(replace(sample, **changes) for sample in one.samples))


def _right(rng: random.Random) -> Verdict:
    return RIGHT


def _broken(rng: random.Random) -> Verdict:
    return BROKEN


ODD_RUNS: dict[str, Callable[[Path], Path]] = {
    "nothing recorded yet": lambda folder: record(folder),
    "one step": lambda folder: record(folder, card(0, any_verdict)),
    "eval only": lambda folder: record(
        folder, card(0, any_verdict, mode="eval"), logs=False, findings=False
    ),
    "no advantages": lambda folder: record(
        folder, replace(card(0, any_verdict), advantages=None)
    ),
    "all void": lambda folder: record(
        folder, card(0, _broken), card(1, _broken), findings=False
    ),
    "all right": lambda folder: record(
        folder, card(0, _right), card(1, _right), findings=False
    ),
    "an empty batch": lambda folder: record(
        folder, card(0, any_verdict).first(0), card(1, any_verdict)
    ),
    "no groups, steps or tokens": lambda folder: record(
        folder,
        _alone(
            card(0, any_verdict),
            group=None,
            step=None,
            completion_ids=None,
            truncated=None,
            prompt=None,
        ),
    ),
    "one completion": lambda folder: record(folder, card(0, any_verdict).first(1)),
    "no logs": lambda folder: record(
        folder, card(0, any_verdict), card(1, any_verdict), logs=False, findings=False
    ),
}
