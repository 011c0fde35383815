"""The documentation: the pages of `docs/`, which come with the package, and their sections."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from trl_grpo_ext.support.text import did_you_mean, nearest

HEADING = re.compile(r"^## (.*)$")
MOST_PLACES = 8  # that are named


def read_docs(reference: str) -> str:
    """The text of a page, or of a section of it.

    A reference is `"math"`, `"findings#bad_data"`, or as a docstring has it, `"docs/findings.md#bad_data"`.

    Raises:
        ValueError: for an unknown page or section; the message names the nearest, or the sections that speak of it.

    Examples:
        >>> read_docs("findings#bad_data").splitlines()[0]
        '## bad_data'
    """
    name, _, section = reference.partition("#")
    pages = _pages()
    page = pages.get(Path(name).name.removesuffix(".md"))
    if page is None:
        raise ValueError(f"The documentation has no page {name!r}. {_told_places(name, pages)}")
    text = page.read_text(encoding="utf-8").rstrip()
    return _section(text, section, page.stem) if section else text


def _told_places(word: str, pages: Mapping[str, Path]) -> str:
    """The page with nearly this name, or else the sections that speak of the word, those that do so most first."""
    if nearest(word, pages):
        return did_you_mean(word, pages)
    counts = Counter(
        {
            f"{name}#{section}" if section else name: text.lower().count(word.lower())
            for name, path in pages.items()
            for section, text in _sections(path.read_text(encoding="utf-8")).items()
        }
    )
    places = [place for place, count in counts.most_common(MOST_PLACES) if count]
    return f"It is spoken of in: {', '.join(places)}." if places else did_you_mean(word, pages)


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
    sections = _sections(text)
    if wanted not in sections:
        raise ValueError(f"The page {page!r} has no section {wanted!r}. {did_you_mean(wanted, filter(None, sections))}")
    return sections[wanted]


def _sections(text: str) -> dict[str, str]:
    """The sections of a page, by what follows the `#` in a link to them; what comes before the first is of ""."""
    sections: dict[str, list[str]] = {}
    lines = sections.setdefault("", [])
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if not fenced and (heading := HEADING.match(line)):
            lines = sections.setdefault(_anchor(heading[1]), [])
        lines.append(line)
    return {name: "\n".join(lines).rstrip() for name, lines in sections.items()}


def _anchor(heading: str) -> str:
    """What follows the `#` in a link to the heading, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
