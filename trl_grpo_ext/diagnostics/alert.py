"""Findings as alerts of the trackers that the user's run is logged to. None is imported for it."""

from __future__ import annotations

import logging
import sys
from typing import Any

from trl_grpo_ext.diagnostics.finding import Finding, Severity

logger = logging.getLogger(__name__)


def alert_trackers(finding: Finding) -> None:
    """Raise an alert in wandb and trackio where they are loaded and a run is active; never raises."""
    for send in (_alert_wandb, _alert_trackio):
        try:
            send(finding)
        except Exception as error:
            logger.debug("No alert for %s: %s", finding.code, error)


def _alert_wandb(finding: Finding) -> None:
    wandb: Any = sys.modules.get("wandb")
    if wandb is None or getattr(wandb, "run", None) is None:
        return
    level = {Severity.INFO: "INFO", Severity.WARNING: "WARN", Severity.CRITICAL: "ERROR"}[finding.severity]
    wandb.alert(title=finding.code, text=_text(finding), level=getattr(wandb.AlertLevel, level))


def _alert_trackio(finding: Finding) -> None:
    trackio: Any = sys.modules.get("trackio")
    if trackio is None or not hasattr(trackio, "alert") or trackio.context_vars.current_run.get() is None:
        return
    level = {Severity.INFO: "INFO", Severity.WARNING: "WARN", Severity.CRITICAL: "ERROR"}[finding.severity]
    trackio.alert(title=finding.code, text=_text(finding), level=getattr(trackio.AlertLevel, level))


def _text(finding: Finding) -> str:
    return f"{finding.sentence} {finding.action} ({finding.docs})"
