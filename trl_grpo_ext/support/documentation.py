"""Read pages and sections of the documentation, `docs/`, which ships with the package."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from trl_grpo_ext.support.text import did_you_mean, nearest

HEADING = re.compile(r"^## (.*)$")
# The maximum number of sections that an error message suggests.
MOST_PLACES = 8


def read_docs(reference: str) -> str:
    """Return the text of a documentation page or section.

    A reference is a page, `"math"`, a section, `"findings#bad_data"`, or a path, `"docs/findings.md#bad_data"`.

    Raises:
        ValueError: for an unknown page or section; the message suggests a similar name, or sections with the word.

    Examples:
        >>> read_docs("findings#bad_data").splitlines()[0]
        '## bad_data'
    """
    name, _, section = reference.partition("#")
    pages = _pages()
    page = pages.get(Path(name).name.removesuffix(".md"))
    if page is None:
        raise ValueError(
            f"The documentation has no page {name!r}. {_told_places(name, pages)}"
        )
    text = page.read_text(encoding="utf-8").rstrip()
    if not section:
        return text
    return _section(text, section, page.stem)


def _told_places(word: str, pages: Mapping[str, Path]) -> str:
    """Suggest the page with a similar name, else the sections that contain the word most often."""
    if nearest(word, pages):
        return did_you_mean(word, pages)
    counts: Counter[str] = Counter()
    for name, path in pages.items():
        sections = _sections(path.read_text(encoding="utf-8"))
        for section, text in sections.items():
            place = f"{name}#{section}" if section else name
            counts[place] = text.lower().count(word.lower())
    places = [place for place, count in counts.most_common(MOST_PLACES) if count]
    if not places:
        return did_you_mean(word, pages)
    return f"It is spoken of in: {', '.join(places)}."


def page_titles() -> dict[str, str]:
    """Return the title of each page, by page name.

    Examples:
        >>> page_titles()["replay"]
        'Replay'
    """
    titles = {}
    for name, path in _pages().items():
        first_line, _, _ = path.read_text(encoding="utf-8").partition("\n")
        titles[name] = first_line.removeprefix("# ")
    return titles


def _pages() -> dict[str, Path]:
    folder = Path(__file__).resolve().parents[1] / "docs"
    return {path.stem: path for path in sorted(folder.glob("*.md"))}


def _section(text: str, wanted: str, page: str) -> str:
    sections = _sections(text)
    if wanted not in sections:
        # The text before the first heading has no name.
        near = did_you_mean(wanted, filter(None, sections))
        raise ValueError(f"The page {page!r} has no section {wanted!r}. {near}")
    return sections[wanted]


def _sections(text: str) -> dict[str, str]:
    """Split a page into sections, by anchor; the text before the first heading has the key ""."""
    sections: dict[str, list[str]] = {}
    lines = sections.setdefault("", [])
    is_code = False
    for line in text.splitlines():
        if line.startswith("```"):
            is_code = not is_code
        heading = HEADING.match(line)
        # In code, `## ` begins a comment.
        if heading and not is_code:
            lines = sections.setdefault(_anchor(heading[1]), [])
        lines.append(line)
    return {name: "\n".join(lines).rstrip() for name, lines in sections.items()}


def _anchor(heading: str) -> str:
    """Return the anchor of a heading in links, as GitHub makes it: `Bad data!` gives `bad-data`."""
    words = re.sub(r"[^\w\- ]", "", heading.lower())
    return words.replace(" ", "-")
