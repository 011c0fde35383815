"""`trl-grpo-ext docs`: print a documentation page, a section, or the list of pages."""

from __future__ import annotations

import argparse
from typing import Any

from trl_grpo_ext.commands.exit_status import FINE, in_two_columns, print_text, refusing
from trl_grpo_ext.diagnostics.finding import MERGED, PAGE
from trl_grpo_ext.support.documentation import page_titles, read_docs

HELP = "print a page of the documentation, or a finding's explanation"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "docs",
        description="Print a page of the documentation, or a section of one: `trl-grpo-ext docs metrics`, "
        "`trl-grpo-ext docs findings#bad_data`. Without a page, list them; with a word that is no page, list the "
        "sections that speak of it.",
    )
    parser.add_argument("page", nargs="?", metavar="PAGE", help="a page, or PAGE#SECTION")


def run(arguments: argparse.Namespace) -> int:
    with refusing():
        if arguments.page is None:
            print_text(in_two_columns(page_titles()))
        else:
            print_text(read_docs(_under_its_code(arguments.page)))
    return FINE


def _under_its_code(page: str) -> str:
    """Replace an outdated finding code in a page's section by its current code.

    Examples:
        >>> _under_its_code("findings#starved_grader")
        'findings#grader_trouble'
    """
    name, _, section = page.partition("#")
    if name == PAGE and section in MERGED:
        return f"{name}#{MERGED[section]}"
    return page
