"""Start a browser for tests of pages; without a browser these tests are skipped, and the test summary says so.

`CHROMIUM` is the path of the browser; by default a browser on the PATH is used, then playwright's own. If `CI` or
`CHROMIUM` is set, a browser that does not start is a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
# The start of the skip reason, by which the summary finds skipped tests.
NO_BROWSER = "no browser"
ADVICE = (
    "The pages of the report and the lab were not opened: there is no browser. To get one, run\n"
    "`apt-get install chromium` or `.venv/bin/playwright install chromium`, or set CHROMIUM to the path of one."
)


@contextmanager
def open_browser() -> Iterator[Any]:
    """Run headless Chromium during the `with` block."""
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
