"""Take screenshots for README and site: a quickstart report, and the lab page.

make pictures                 # trains the quickstart first, a minute
python scripts/take_pictures.py runs/quickstart
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
WIDTH = 1000
HEIGHTS = {"report": 1060, "lab": 720}
# Pages have few colours; a palette this small makes files a quarter of the size.
COLOURS = 64
NAMES = ("chromium", "chromium-browser", "google-chrome")
# Time in milliseconds for charts to reach their size.
DRAWN_MS = 1500


def main(run: str) -> None:
    """Render the report and the lab page, and save a screenshot of each."""
    PICTURES.mkdir(exist_ok=True)
    commands = [sys.executable, "-m", "trl_grpo_ext"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        subprocess.run(
            [*commands, "report", run, "--output", f"{folder}/report.html"], check=True
        )
        subprocess.run([*commands, "lab", "--output_dir", folder], check=True)
        path = os.environ.get("CHROMIUM") or next(
            filter(None, map(shutil.which, NAMES)), None
        )
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        take(page, Path(folder, "report.html"), "report")
        take(page, next(Path(folder).glob("*lab*.html")), "lab")
        browser.close()


def take(page: Page, file: Path, name: str) -> None:
    """Save the top of a page as a small PNG file."""
    page.set_viewport_size({"width": WIDTH, "height": HEIGHTS[name]})
    page.goto(file.as_uri())
    page.wait_for_timeout(DRAWN_MS)
    picture = Image.open(io.BytesIO(page.screenshot()))
    picture.convert("RGB").quantize(COLOURS).save(PICTURES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/quickstart")
