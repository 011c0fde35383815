"""The documentation: the pages of `docs/`, which come with the package, and their sections."""

from __future__ import annotations

import re
from pathlib import Path

from trl_grpo_ext.support.text import did_you_mean

HEADING = re.compile(r"^## (.*)$")


def read_docs(reference: str) -> str:
    """The text of a page, or of a section of it.

    A reference is `"math"`, `"findings#bad_data"`, or as a docstring has it, `"docs/findings.md#bad_data"`.

    Raises:
        ValueError: for an unknown page or section; the message names the nearest.

    Examples:
        >>> read_docs("findings#bad_data").splitlines()[0]
        '## bad_data'
    """
    name, _, section = reference.partition("#")
    pages = _pages()
    page = pages.get(Path(name).name.removesuffix(".md"))
    if page is None:
        raise ValueError(f"The documentation has no page {name!r}. {did_you_mean(name, pages)}")
    text = page.read_text(encoding="utf-8").rstrip()
    return _section(text, section, page.stem) if section else text


def page_titles() -> dict[str, str]:
    """The title of each page, by its name.

    Examples:
        >>> page_titles()["replay"]
        'Replay'
    """
    titles = {name: path.read_text(encoding="utf-8").partition("\n")[0] for name, path in _pages().items()}
    return {name: title.removeprefix("# ") for name, title in titles.items()}


def _pages() -> dict[str, Path]:
    folder = Path(__file__).resolve().parents[1] / "docs"
    return {path.stem: path for path in sorted(folder.glob("*.md"))}


def _section(text: str, wanted: str, page: str) -> str:
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if not fenced and (heading := HEADING.match(line)):
            lines = sections.setdefault(_anchor(heading[1]), [])
        lines.append(line)
    if wanted not in sections:
        raise ValueError(f"The page {page!r} has no section {wanted!r}. {did_you_mean(wanted, sections)}")
    return "\n".join(sections[wanted]).rstrip()


def _anchor(heading: str) -> str:
    """What follows the `#` in a link to the heading, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
