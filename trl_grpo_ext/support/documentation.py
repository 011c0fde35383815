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
        raise ValueError(f"The documentation has no page {name!r}. {_told_places(name, pages)}")
    text = page.read_text(encoding="utf-8").rstrip()
    return _section(text, section, page.stem) if section else text


def _told_places(word: str, pages: Mapping[str, Path]) -> str:
    """Suggest the page with a similar name, else the sections that contain the word most often."""
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
    """Return the title of each page, by page name.

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
    """Split a page into sections, by anchor; the text before the first heading has the key ""."""
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
    """Return the anchor of a heading in links, as GitHub makes it: `Bad data!` gives `bad-data`."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
