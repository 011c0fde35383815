"""Refuse to run code in the judge, unless tests or library own it.

A test may hand a program's text to `eval`, and so may the library: `typing.get_type_hints`, `timeit`, `doctest`,
`pickle`. The guard needs no list of such functions. Python announces each piece of code that is compiled or run,
whoever asks for it, and the guard ends the judge unless the code is one of these:

* the tests as the dataset has them, and texts that stand in them as constants, as in `exec("x = 3")`;
* files of the library and of packages, when they are imported, but none in the folder that tests and program share;
* code that the library writes for classes of the tests: data classes, named tuples, mocks.

A test's own `eval(f(3)) == 24` is answered by `expressions`, which runs no code. Parsing a text to a tree is allowed,
as `ast.literal_eval` does; compiling a tree is not, since its origin is unknown.
"""

from __future__ import annotations
import __future__

import _thread
import builtins
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from traceback import print_exception
from types import CodeType, FrameType
from typing import Any, NoReturn

from trl_grpo_ext.programs.sandbox.inside.compiled import FORMATTED
from trl_grpo_ext.programs.sandbox.inside.guard.expressions import (
    NotPlainError,
    evaluate,
    is_plain_class,
)
from trl_grpo_ext.programs.sandbox.inside.guard.formats import FormatCheck
from trl_grpo_ext.programs.sandbox.inside.guard.logging_config import guard_logging_config
from trl_grpo_ext.programs.sandbox.walls.filesystem import PRIVATE_SCRATCH

_compile, _exec, _eval = builtins.compile, builtins.exec, builtins.eval

# ast.PyCF_ONLY_AST
_ONLY_PARSE = 0x400
_INHERITED = __future__.annotations.compiler_flag
# inspect.CO_OPTIMIZED marks the code of a function, whose variables exec cannot change.
_OPTIMIZED = 0x1
_EVENTS = frozenset(
    (
        *("compile", "exec", "marshal.loads", "marshal.load", "pickle.find_class"),
        *("code.__new__", "function.__new__", "object.__setattr__"),
    )
)
"""Audit events that create or run code; see https://docs.python.org/3/library/audit_events.html."""
# These modules take only names of fields and functions from their callers; see `_is_of_generator`.
_GENERATORS = frozenset(
    (
        *("attr._make", "collections", "dataclasses", "networkx.utils.decorators"),
        *(
            "scipy.stats._distn_infrastructure",
            "sympy.polys.monomials",
            "types",
            "unittest.mock",
        ),
    )
)
# Matches attributes that lead into the judge, and test variables, which pandas marks with a prefix.
_HIDDEN_NAME = re.compile(r"(?<![\w])_")
_IMPORTERS = frozenset(
    {"importlib._bootstrap", "importlib._bootstrap_external", "zipimport"}
)
# Modules that define the classes of Python's loaders.
_LOADERS = frozenset({"_frozen_importlib", "_frozen_importlib_external", "zipimport"})
_TESTS = "<tests"
"""Prefix of file names under which tests are compiled."""


class CodeGuard:
    """The single authority on code that a judge may run.

    Args:
        tests: Code of the tests and their setup, which is trusted.
        refuse: Ends the judge at once, so that no `except` or `assertRaises` of a test can swallow the refusal. Its
            argument describes the refused code.
    """

    def __init__(
        self, tests: Sequence[CodeType], refuse: Callable[[str], NoReturn]
    ) -> None:
        self._refuse = refuse
        self._allowed = {id(code): code for code in tests}
        self._compiling = False

    def install(self, text: str) -> None:
        """Guard this process for good: Python cannot remove an audit hook.

        Args:
            text: Source of the tests.
        """
        for name, function in (
            ("compile", self.compile),
            ("exec", self.exec),
            ("eval", self.eval),
        ):
            setattr(builtins, name, function)
        formats = FormatCheck(self._refuse)
        formats.install()
        setattr(builtins, FORMATTED, formats.formatted)
        guard_logging_config(text, self._stands_in_tests, self._refuse)
        _print_errors_in_python()
        sys.addaudithook(self._audit)

    def compile(
        self,
        source: Any,
        filename: Any,
        mode: str,
        flags: int = 0,
        dont_inherit: bool = False,
        optimize: int = -1,
        **options: Any,
    ) -> Any:
        """Compile a text of the tests, or parse any text; replaces `builtins.compile` in the judge."""
        caller = sys._getframe(1)
        inherited = 0 if dont_inherit else caller.f_code.co_flags & _INHERITED
        if not flags & _ONLY_PARSE:
            return self._code(
                source, filename, mode, caller, flags | inherited, optimize, **options
            )
        evaluated = _evaluated_by_pandas(caller)
        if (
            evaluated is not None
            and not self._stands_in_tests(evaluated)
            and _HIDDEN_NAME.search(str(source))
        ):
            self._refuse("a text that pandas evaluates")
        self._compiling = True
        try:
            return _compile(
                source, filename, mode, flags | inherited, True, optimize, **options
            )
        finally:
            self._compiling = False

    def exec(
        self,
        source: Any,
        /,
        globals: Any = None,  # noqa: A002
        locals: Any = None,  # noqa: A002
        *,
        closure: Any = None,
    ) -> None:
        """Run code, or a text of the tests; replaces `builtins.exec` in the judge."""
        caller = sys._getframe(1)
        scope = _scope(caller, globals, locals)
        if not isinstance(source, CodeType):
            source = self._code(
                source, "<string>", "exec", caller, caller.f_code.co_flags & _INHERITED
            )
        if closure is None:
            _exec(source, *scope)
        else:
            _exec(source, *scope, closure=closure)

    def eval(self, source: Any, /, globals: Any = None, locals: Any = None) -> Any:  # noqa: A002
        """Evaluate code, a text of the tests, or a plain expression; replaces `builtins.eval` in the judge."""
        caller = sys._getframe(1)
        scope = _scope(caller, globals, locals)
        if isinstance(source, CodeType):
            return _eval(source, *scope)
        # A name does not count as a constant: Python keeps a single object for equal names, even for a program's.
        is_name = type(source) is str and source.isidentifier()
        if _is_of_tests(caller) and (is_name or not self._stands_in_tests(source)):
            try:
                return evaluate(source, *scope, given=_given(caller, globals, locals))
            except NotPlainError as error:
                self._refuse(f"eval: {error}")
        # `eval` ignores spaces at the beginning; `compile`, called below, does not.
        text = source.lstrip(" \t") if type(source) is str else source
        code = self._code(
            source,
            "<string>",
            "eval",
            caller,
            caller.f_code.co_flags & _INHERITED,
            text=text,
        )
        return _eval(code, *scope)

    def _code(
        self,
        source: Any,
        filename: Any,
        mode: str,
        caller: FrameType,
        flags: int,
        optimize: int = -1,
        text: Any = None,
        **options: Any,
    ) -> CodeType:
        """Compile a permitted text; end the judge for any other text."""
        of_library = (
            _is_of_generator(caller)
            or _is_of_importer(caller)
            or self._is_importing(caller)
        )
        if not (of_library or self._stands_in_tests(source) or _is_of_timeit(source)):
            self._refuse(f"compile, called by {_place(caller)}")
        text = source if text is None else text
        self._compiling = True
        try:
            code: CodeType = _compile(
                text, filename, mode, flags, True, optimize, **options
            )
        finally:
            self._compiling = False
        # The dict keeps the code alive, so that no other code gets its `id`.
        self._allowed[id(code)] = code
        return code

    def _stands_in_tests(self, source: Any) -> bool:
        """Return whether a text object occurs among constants of the tests.

        Identity counts, not equality, since a program may guess a constant's text.
        """
        return type(source) in (str, bytes) and any(
            source is each for each in self._constants()
        )

    def _constants(self) -> Iterator[Any]:
        for code in [*self._allowed.values()]:
            yield from _constants(code)

    def _is_importing(self, frame: FrameType | None) -> bool:
        """Return whether a module import is in progress; imports pass no program values to a module's functions."""
        while frame is not None and not _is_of_tests(frame):
            if getattr(frame.f_globals.get("__spec__"), "_initializing", False):
                return True
            frame = frame.f_back
        return False

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        # Python calls the hook for every event, so most calls end here.
        if event not in _EVENTS:
            return
        caller = sys._getframe(1)
        # Skip the wrappers above to find the caller of `exec`.
        while caller.f_globals is globals() and caller.f_back is not None:
            caller = caller.f_back
        by_library = _is_of_importer(caller) or (
            _module(caller) == "types" and event != "exec"
        )
        if not (by_library or self._may_be(event, arguments) or self._is_importing(caller)):
            self._refuse(f"{event}, called by {_place(caller)}")

    def _may_be(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "compile":
            return self._compiling
        if event == "pickle.find_class":
            return is_plain_class(*arguments)
        # An assignment to `__code__` gives a function other code without an `exec`.
        if event == "object.__setattr__":
            return arguments[1] != "__code__" or self._is_allowed(arguments[2])
        return event in ("exec", "function.__new__") and self._is_allowed(arguments[0])

    def _is_allowed(self, code: Any) -> bool:
        if self._allowed.get(id(code)) is code:
            return True
        return any(code is each for each in self._constants())


def _scope(frame: FrameType, global_names: Any, local_names: Any) -> tuple[Any, Any]:
    """Return global and local names for exec and eval; by default, the caller's names."""
    if global_names is not None:
        return global_names, global_names if local_names is None else local_names
    if local_names is None:
        local_names = (
            dict(frame.f_locals) if frame.f_code.co_flags & _OPTIMIZED else frame.f_locals
        )
    return frame.f_globals, local_names


def _given(frame: FrameType, *scopes: Any) -> dict[str, Any]:
    """Return names that a test gives to a text, as in `eval(f(), {"x": 3})`, without names of the test itself."""
    given = {}
    for scope in scopes:
        # `globals()` has a `__name__`, and `locals()` the names of the caller: both are the test's own.
        is_of_test = (
            scope is None or "__name__" in scope or scope.keys() == frame.f_locals.keys()
        )
        if not is_of_test:
            given.update(scope)
    return given


def _constants(code: CodeType) -> Iterator[Any]:
    """Yield constants of a code object, including constants of nested functions."""
    waiting: list[Any] = [code]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, CodeType):
            waiting += each.co_consts
        elif isinstance(each, tuple | frozenset):
            waiting += each


def _print_errors_in_python() -> None:
    """Print exceptions of threads and of `__del__` by Python code instead of C code.

    Python itself would do it in C, and parse the lines that it shows, which looks as if it compiled them.
    """

    def of_thread(told: Any) -> None:
        if told.exc_type is not SystemExit:
            print_exception(told.exc_value)

    # threading takes its hook from here when it is imported.
    _thread._excepthook = of_thread
    if "threading" in sys.modules:
        sys.modules["threading"].excepthook = of_thread  # type: ignore[attr-defined]
    sys.unraisablehook = lambda told: print_exception(told.exc_value)


def _is_of_tests(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_TESTS)


def _is_of_timeit(source: Any) -> bool:
    """Return whether a text equals timeit's own code for calling a function, as in `timeit.timeit(lambda: f(3))`."""
    template = getattr(sys.modules.get("timeit"), "template", "")
    calls = template.format(init=", _stmt=_stmt", setup="pass", stmt="_stmt()")
    return type(source) is str and source in ("pass", calls)


def _module(frame: FrameType) -> Any:
    return frame.f_globals.get("__name__")


def _evaluated_by_pandas(frame: FrameType | None) -> Any:
    """Return the text that `DataFrame.query` or `pandas.eval` is parsing, as passed to pandas; None for other parsing.

    pandas evaluates the tree itself, so no code is compiled.
    """
    found = None
    while frame is not None and str(_module(frame)).startswith(("ast", "pandas.")):
        if frame.f_code.co_name in ("eval", "query"):
            found = frame.f_locals.get("expr", found)
        frame = frame.f_back
    return found


def _is_of_generator(frame: FrameType | None) -> bool:
    """Return whether the library is generating code for a class or mock from valid identifiers."""
    module = None if frame is None else _module(frame)
    while module in _GENERATORS and frame is not None and _module(frame) == module:
        function = frame.f_code.co_name
        # The fields of a data class.
        fields = frame.f_locals.get("fields", ()) if function == "_process_class" else ()
        are_names = all(isinstance(name, str) and name.isidentifier() for name in fields)
        if function == "make_class" or not are_names:
            return False
        frame = frame.f_back
    return module in _GENERATORS


def _is_of_importer(frame: FrameType | None) -> bool:
    """Return whether Python's own loaders are loading a module.

    A loader of the tests does not count: its text may come from the program.
    """
    loaders = []
    while frame is not None and _module(frame) in _IMPORTERS:
        loaders.append(frame.f_locals.get("self"))
        frame = frame.f_back
    return bool(loaders) and all(each is None or _is_of_library(each) for each in loaders)


def _is_of_library(loader: Any) -> bool:
    """Return whether Python itself defines a loader, and its file lies outside the folder that programs can write."""
    path = str(getattr(loader, "path", None) or getattr(loader, "archive", ""))
    return type(loader).__module__ in _LOADERS and not _is_in_scratch(path)


# Cached: several events, each with several frames of the loader, ask for a module's path.
@cache
def _is_in_scratch(path: str) -> bool:
    # The real path counts, because `/tmp` is a link to the scratch folder.
    return os.path.realpath(path).startswith(PRIVATE_SCRATCH)


def _place(frame: FrameType) -> str:
    return f"{_module(frame)}.{frame.f_code.co_name}"
