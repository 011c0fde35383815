"""Supply the names that right programs leave out, since a contest's grader or the prompt's stub has them in scope.

Completions are read by patterns in linear time, never parsed.
"""

from __future__ import annotations

import re

from trl_grpo_ext.programs.suites.blocks import names_read_but_not_bound, with_helpers

# Graders of contests put such imports in front of a program, and starter code relies on them: `nums: List[int]`.
_CONTEST_IMPORTS = """import bisect, collections, functools, heapq, itertools, math, random, re, string, sys
from bisect import bisect_left, bisect_right, insort, insort_left, insort_right
from collections import Counter, OrderedDict, defaultdict, deque
from copy import deepcopy
from functools import cache, cmp_to_key, lru_cache, reduce
from heapq import heapify, heappop, heappush, heappushpop, heapreplace, nlargest, nsmallest
from itertools import accumulate, chain, combinations, groupby, pairwise, permutations, product, zip_longest
from math import ceil, comb, factorial, floor, gcd, inf, isqrt, lcm, log, log2, sqrt
from typing import Any, Callable, Deque, Dict, FrozenSet, Iterable, Iterator, List, Optional, Set, Tuple, Union
""".splitlines(keepends=True)
# LeetCode shows these in comments of its starter code, and has them in scope.
_LEETCODE_CLASSES = (
    """class ListNode:
    def __init__(self, val=0, next=None):
        self.val = val
        self.next = next
""",
    """class TreeNode:
    def __init__(self, val=0, left=None, right=None):
        self.val = val
        self.left = left
        self.right = right
""",
)
_CONTEST_SCOPE = (*_CONTEST_IMPORTS, *_LEETCODE_CLASSES)
_LEETCODE_PROGRAM = re.compile(r"^class[ \t]+Solution\b", re.MULTILINE)

_OF_TYPING = (
    "Any|Callable|DefaultDict|Deque|Dict|FrozenSet|Generator|Iterable|Iterator|List|Literal|Mapping|Optional|Sequence|"
    "Set|Tuple|Type|Union"
)
_FIRST_LETTERS = "".join(sorted({name[0] for name in _OF_TYPING.split("|")}))
# `xs: List[int]`, `-> Any:`, `dict[str, Any]`, `int | Any`; a call such as `Set()` is no annotation.
# The test of the first letter avoids most of the search.
_ANNOTATION = re.compile(
    rf"(?=[{_FIRST_LETTERS}])(?:(?:(?<=[:>|,\[])|(?<=[:>|,\[] ))(?:{_OF_TYPING})\b(?!\()|\b(?:{_OF_TYPING})(?=\[))"
)


def with_names_left_out(program: str, *, is_of_contest: bool) -> str:
    r"""Prepend the imports and classes that a program uses and its contest keeps in scope.

    A contest's program gets the imports that contests have. So does any program of LeetCode's form, `class Solution`.
    In every other program, annotations with names of `typing` are not evaluated; a value that uses such a name still
    needs its import.

    Examples:
        >>> print(with_names_left_out("class Solution:\n    f = lambda self: inf", is_of_contest=False))
        from math import ceil, comb, factorial, floor, gcd, inf, isqrt, lcm, log, log2, sqrt
        class Solution:
            f = lambda self: inf
        >>> with_names_left_out("def f(x: List): return x", is_of_contest=False)
        'from __future__ import annotations\ndef f(x: List): return x'
    """
    # A `__future__` import must stay at the top.
    if "__future__" in program:
        return program
    if is_of_contest or _LEETCODE_PROGRAM.search(program):
        return with_helpers(program, _CONTEST_SCOPE)
    annotations = set(_ANNOTATION.findall(program))
    if annotations and annotations & names_read_but_not_bound(program):
        return f"from __future__ import annotations\n{program}"
    return program
