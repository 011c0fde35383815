"""LLM judges: the question, the endpoint and the parsed reply, for `LlmJudgeVerifier` and `CascadeVerifier`."""
