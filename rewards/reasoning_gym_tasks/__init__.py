"""What `ReasoningGymVerifier` runs in its workers: a task's own scorer, behind checks of what it overlooks."""
