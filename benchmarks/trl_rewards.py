"""Three rewards that TRL builds by a function call, for `trl-grpo-ext audit trl_rewards:NAME`."""

from trl.rewards import get_cosine_scaled_reward, get_repetition_penalty_reward, get_soft_overlong_punishment

cosine_scaled_reward = get_cosine_scaled_reward(max_len=512)
repetition_penalty_reward = get_repetition_penalty_reward(ngram_size=3, max_penalty=-1.0)
soft_overlong_punishment = get_soft_overlong_punishment(max_completion_len=512, soft_punish_cache=128)
