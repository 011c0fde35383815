from rewards.true_steps import true_steps


def test_the_share_of_true_steps_is_the_score() -> None:
    completions = [
        "<think>20+16=36\n36+20=56</think>56",
        "20+16=36, 36+20=57",
        "20+16=36",
        "56",
    ]
    assert true_steps(completions, prompts=["20+16+20"] * 4) == [1.0, 0.5, 0.5, 0.0]


def test_a_true_sum_that_was_not_asked_for_is_paid_nothing() -> None:
    assert true_steps(["1+1=2", "16+20=36"], prompts=["20+16+20"] * 2) == [0.0, 0.0]
