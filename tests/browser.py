"""The browser that tests open pages in; without one they are skipped, and the end of the test run says so.

`CHROMIUM` names the browser; without it one on the PATH is taken, then playwright's own. Where `CI` or `CHROMIUM` is
set, a browser that cannot be started is a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
NO_BROWSER = "no browser"  # how the reason of a skip begins, by which the summary finds it
ADVICE = (
    "The pages of the report and the lab were not opened: there is no browser. To get one, run\n"
    "`apt-get install chromium` or `.venv/bin/playwright install chromium`, or set CHROMIUM to the path of one."
)


@contextmanager
def open_browser() -> Iterator[Any]:
    """Chromium, without a window, for as long as the `with` block lasts."""
    from playwright import sync_api

    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    with sync_api.sync_playwright() as started:
        try:
            chromium = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except sync_api.Error as error:
            if os.environ.get("CI") or "CHROMIUM" in os.environ:
                pytest.fail(f"{ADVICE}\n{error}", pytrace=False)
            pytest.skip(f"{NO_BROWSER}: {str(error).splitlines()[0]}")
        try:
            yield chromium
        finally:
            chromium.close()
