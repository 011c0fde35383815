"""TRL's own rewards, where TRL has them."""

from __future__ import annotations

import pytest
import trl.rewards

from trl_grpo_ext.rewards.trl_lengths import CosineLengthVerifier, check_trl_has, trl_factory


def test_a_reward_that_trl_has_is_found() -> None:
    assert trl_factory("get_soft_overlong_punishment", since="1.6") is trl.rewards.get_soft_overlong_punishment


def test_one_that_it_has_not_is_refused_with_the_release_that_has_it() -> None:
    with pytest.raises(ValueError, match=r"get_no_such_reward, which TRL has from 99\.0 on; installed is \d"):
        check_trl_has("get_no_such_reward", since="99.0")


@pytest.mark.skipif("get_cosine_scaled_reward" in dir(trl.rewards), reason="this TRL has it")
def test_an_old_trl_is_named_when_a_verifier_is_made() -> None:
    with pytest.raises(ValueError, match=r"from 1\.7 on"):
        CosineLengthVerifier(max_len=10)
