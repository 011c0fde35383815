"""The name under which scripts import `RecordedRun`, as the README has shown it; its home is `runs/recorded_run.py`."""

from trl_grpo_ext.runs.recorded_run import RecordedRun

__all__ = ["RecordedRun"]
