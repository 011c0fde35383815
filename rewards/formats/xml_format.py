"""Verify answers in XML, with required elements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.parsers import expat

from trl_grpo_ext.answers.read.invisible import visible
from trl_grpo_ext.answers.verdicts import right, unreadable, wrong
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.formats.answer_part import Fence, FormatFaultError, check_fence, fenced_answer
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Verdict

# The greatest nesting depth of elements.
MAX_DEPTH = 100

_NAME = r"[^\W\d][\w.:-]*"
_PATH = re.compile(rf"{_NAME}(?:/{_NAME})*(?:/?@{_NAME})?")


@dataclass(frozen=True, kw_only=True)
class XmlVerifier(Verifier):
    """Checks that the answer is well-formed XML with the required elements.

    The whole text after the thinking must be one XML document, bare or in one `xml` fence, with nothing beside it.
    Python's expat parses it in linear time. A document type declaration is refused, so no entity is expanded and
    nothing is fetched. For tags around free text, which may contain `x < 3`, use `TagsVerifier`.

    Args:
        required: Paths from the root, each present at least once: `recipe/title` for an element, `recipe/step@number`
            for an attribute. The path of the root itself is `recipe`.
        allow_empty: Allow required elements and attributes, and the root, without visible content.
        comments_outside: Allow comments and processing instructions before and after the root, where they can hold any
            amount of text. Inside the root they are always allowed, and count as no content.
        fence: `"optional"`, `"required"` or `"forbidden"`: a code fence around the XML.
        text_around: Allow text before and after the fence.
        name: The metric key.

    | completion | `required=["recipe/title"]` | reason |
    |---|---|---|
    | `<recipe><title>Soup</title></recipe>`, also in an `xml` fence | 1 | |
    | `<recipe><title>Soup</recipe>`, `Soup` | 0 | `not_xml` |
    | `<recipe>Soup</recipe>` | 0 | `missing_element` |
    | `<meal><title>Soup</title></meal>` | 0 | `wrong_root` |
    | `<recipe><title/></recipe>` | 0 | `empty_element` |
    | `<!DOCTYPE recipe><recipe>...` | 0 | `doctype` |
    | `<!-- I think that -->` or `<?so I think?>`, and then the root | 0 | `comment_outside` |
    | 200 elements inside each other | 0 | `too_deep` |
    | bare, with `fence="required"` | 0 | `no_fence` |
    | a fence of another language; two of them; one that is never closed | 0 | `wrong_fence`, `several_fences`, ... |
    | `Here:` before a required fence | 0 | `text_outside` |
    | nothing after the thinking; thinking that does not end | 0 | `no_answer`, `unclosed_think` |

    Raises:
        ValueError: for an invalid path, paths with several roots, or an unknown setting.

    Examples:
        >>> XmlVerifier(required=["recipe/title"])(["<recipe><title>Soup</title></recipe>", "<recipe/>"])
        [1.0, 0.0]
    """

    required: Sequence[str] = ()
    allow_empty: bool = False
    comments_outside: bool = False
    fence: Fence = "optional"
    text_around: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        check_fence(self.fence, text_around=self.text_around, form="XML")
        if isinstance(self.required, str):
            raise ValueError(f"required is a list of paths, got the text {self.required!r}.")
        for path in self.required:
            if not isinstance(path, str) or not _PATH.fullmatch(path):
                raise ValueError(f"{path!r} is no path. Write names with slashes, such as `recipe/step@number`.")
        roots = sorted({_root(path) for path in self.required})
        if len(roots) > 1:
            raise ValueError(
                f"A document has one root, and the paths have {', '.join(roots)}; begin all with the same."
            )

    def verify(self, sample: Sample) -> Verdict:
        answer = fenced_answer(sample, "xml", fence=self.fence, text_around=self.text_around)
        if isinstance(answer, Verdict):
            return answer
        try:
            document = _read(answer, self._wanted, comments_outside=self.comments_outside)
        except FormatFaultError as fault:
            return unreadable(fault.reason, answer=answer, details={"xml": fault.detail})
        return self._verdict(document, answer)

    def _verdict(self, document: _Document, answer: str) -> Verdict:
        wanted = self._wanted
        if wanted and document.root != _root(wanted[0]):
            return wrong("wrong_root", answer=answer, details={"root": document.root[:100]})
        missing = next((path for path in wanted if path not in document.found), None)
        if missing is not None:
            return wrong("missing_element", answer=answer, details={"path": missing})
        if self.allow_empty:
            return right(answer)
        if document.is_empty:
            return wrong("empty_element", answer=answer, details={"path": document.root[:100]})
        hollow = next((path for path in wanted if path not in document.filled), None)
        return right(answer) if hollow is None else wrong("empty_element", answer=answer, details={"path": hollow})

    @property
    def _wanted(self) -> list[str]:
        return [path.replace("/@", "@") for path in self.required]


def _root(path: str) -> str:
    return re.split("[/@]", path, maxsplit=1)[0]


def _prefixes(path: str) -> list[str]:
    """List the paths from the root to the path's element: `["a", "a/b"]` for `a/b@c`."""
    names = path.partition("@")[0].split("/")
    return ["/".join(names[:count]) for count in range(1, len(names) + 1)]


@dataclass(slots=True)
class _Document:
    """A parser state: the wanted paths found in a document.

    Other paths are not stored, so the memory does not grow with the document.

    Attributes:
        looked_for: The wanted paths, without attributes, and all their prefixes.
        root: The name of the root element.
        is_empty: True while the root has neither visible text nor an element inside.
        found: Element paths of `looked_for` in the document, and the paths of all their attributes.
        filled: The paths of `found` with content: visible text or an element, or a visible attribute value.
        open: The paths of the open elements; None for an element outside `looked_for`.
    """

    looked_for: frozenset[str]
    root: str = ""
    is_empty: bool = True
    found: set[str] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)
    open: list[str | None] = field(default_factory=list)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self.open) == MAX_DEPTH:
            raise FormatFaultError("too_deep", f"more than {MAX_DEPTH} elements inside each other")
        path: str | None = name
        if self.open:
            self._fill()
            path = f"{self.open[-1]}/{name}" if self.open[-1] is not None else None
        else:
            self.root = name
        if path not in self.looked_for:
            path = None
        self.open.append(path)
        if path is not None:
            self._note(path, attributes)

    def end(self, _: str) -> None:
        self.open.pop()

    def text(self, text: str) -> None:
        if visible(text):
            self._fill()

    def comment(self, *_: str) -> None:
        """Refuse a comment or processing instruction outside the root."""
        if not self.open:
            raise FormatFaultError("comment_outside", "a comment or an instruction beside the root")

    def _fill(self) -> None:
        self.is_empty = False
        if self.open[-1] is not None:
            self.filled.add(self.open[-1])

    def _note(self, path: str, attributes: dict[str, str]) -> None:
        self.found.add(path)
        for attribute, value in attributes.items():
            self.found.add(f"{path}@{attribute}")
            if visible(value):
                self.filled.add(f"{path}@{attribute}")


def _read(text: str, wanted: Sequence[str], *, comments_outside: bool) -> _Document:
    """Parse an XML document; raise a FormatFaultError if the text is no well-formed document."""
    document = _Document(frozenset(prefix for path in wanted for prefix in _prefixes(path)))
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = document.start
    parser.EndElementHandler = document.end
    parser.CharacterDataHandler = document.text
    if not comments_outside:
        parser.CommentHandler = parser.ProcessingInstructionHandler = document.comment
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        raise FormatFaultError("not_xml", f"{expat.ErrorString(error.code)}, line {error.lineno}") from None
    except UnicodeEncodeError:
        raise FormatFaultError("not_xml", "characters that no text can hold") from None
    return document


def _refuse_doctype(*_: object) -> None:
    raise FormatFaultError("doctype", "document type declarations are refused")
