"""What a judging model is asked, how, and how its reply is read; used by `LlmJudgeVerifier` and `CascadeVerifier`."""
