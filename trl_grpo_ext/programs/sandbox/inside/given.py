"""Check and perform the program's uses of test objects, in the judge.

When a test passes an object to the program, such as a fake clock, a `Mock` or a `StringIO`, the program gets a stand-in
for it, and each use of the stand-in is a request to this module. Requests are hostile until checked. An attribute whose
name begins with an underscore would lead to the tests' code and to expected values, and a replaced method, or a mock's
own method, would answer for the program: such requests fail with an exception in the program.

An object that the program puts in the place of a test's object, such as a mock's child, may be used, but does not
answer what tests ask of the object that was there; see `check_replaced`.
"""

from __future__ import annotations

import ast
import copy
import operator
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from types import FrameType, FunctionType, MethodType
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.contained import reserve
from trl_grpo_ext.programs.sandbox.inside.crossing.awaiting import Tasks, close
from trl_grpo_ext.programs.sandbox.inside.crossing.binding import has_tests, store
from trl_grpo_ext.programs.sandbox.inside.crossing.classes import (
    ALL,
    ASKED_OF_CLASSES,
    BINDING,
    CHANGED_BY_DECORATORS,
    DATA_CLASS,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.encoder import is_plain_type
from trl_grpo_ext.programs.sandbox.inside.crossing.values import attributes, of_module
from trl_grpo_ext.programs.sandbox.inside.handle import Stub
from trl_grpo_ext.programs.sandbox.inside.remote_class import RemoteClass

tasks = Tasks()

_OF_PARTIALS = frozenset({"func", "args", "keywords"})


def is_data_class(kind: type) -> bool:
    """Return whether a class of the tests holds only data.

    Its objects then cross to the program as copies of their attributes, not as stand-ins.
    """
    bases = [base for base in kind.__mro__ if base is not object]
    # `object` itself has no bases.
    if not bases or not all(base.__module__ == "tests" for base in bases):
        return False
    allowed = DATA_CLASS
    if "__dataclass_fields__" not in vars(kind):
        allowed = DATA_CLASS - {"__eq__", "__hash__"}
    return all(_is_data(base, allowed) for base in bases)


def _is_data(kind: type, allowed: frozenset[str]) -> bool:
    """Return whether a class defines nothing but fields and the special names `allowed`."""
    members = vars(kind)
    slots = members.get("__slots__", ())
    fields = {*members.get("__dataclass_fields__", ())}
    # Python allows a single name as text in `__slots__`.
    fields.update([slots] if isinstance(slots, str) else slots)
    for name, value in members.items():
        is_unhashable = name == "__hash__" and value is None
        if not (name in allowed or name in fields or is_unhashable):
            return False
    return True


def specials_of(kind: type) -> tuple[str, ...]:
    """List special methods of a test object's class that differ from those of `object`."""
    found = []
    for name in ALL:
        method = getattr(kind, name, None)
        if method is not None and method is not vars(object).get(name):
            found.append(name)
    # A function binds without a word to the judge, and a method is bound already.
    if not issubclass(kind, FunctionType | MethodType | type):
        found += [name for name in BINDING if hasattr(kind, name)]
    return tuple(sorted(found))


def data_of(kind: type) -> tuple[Any, ...] | None:
    """Describe a data-only class for `Counterparts.class_`; return None for a class with behaviour."""
    if not is_data_class(kind):
        return None
    options = vars(kind).get("__dataclass_params__")
    if options is None:
        return ()
    fields = vars(kind)["__dataclass_fields__"]
    own = []
    for name in vars(kind).get("__annotations__", ()):
        if name in fields:
            own.append((name, _annotation(fields[name].type)))
    return tuple(own), options.eq, options.order


def _annotation(kind: Any) -> Any:
    """Return a field's type as the program may see it: by name, a plain type or class, otherwise `object`."""
    is_plain = isinstance(kind, str | type) and not hasattr(kind, "__origin__")
    return kind if is_plain else object


def _checked_name(target: Any, name: Any) -> str:
    _check_no_tests(target)
    # An exact type: methods of a stand-in for the program's own class of texts could ask the program.
    if type(name) is not str or name.startswith("_") or name in _of_mocks(target):
        raise AttributeError(
            f"{type(target).__name__!r} object has no attribute {name!r}", name=str(name)
        )
    return name


def _check_no_tests(target: Any) -> None:
    """Refuse uses of a test class, which contains expected values.

    A decorator of the program may receive such a class; it may only pass the class on.

    Raises:
        TypeError: if `target` is a unittest test case or a class with a method named `test_...`.
    """
    if has_tests(target):
        raise TypeError(
            f"the program may only pass on {target.__name__!r}, which has tests"
        )


def _check_no_accessor(target: Any) -> None:
    """Refuse to make an `operator.attrgetter` and the like: these take names that lead to the tests' code.

    Raises:
        TypeError: if `target` is such a class.
    """
    if target in (operator.attrgetter, operator.methodcaller):
        raise TypeError(f"the program may not call operator.{target.__name__} of the tests")


def _call(target: Any, /, *args: Any, **kwargs: Any) -> Any:
    _check_no_tests(target)
    _check_no_accessor(target)
    return target(*args, **kwargs)


def _of_mocks(target: Any) -> frozenset[str]:
    """Return reserved names: of mocks (`assert_called_once`), test cases (`assertEqual`) and partials.

    The arguments of a partial may be expected values.
    """
    if isinstance(target, partial):
        return _OF_PARTIALS
    if isinstance(target, of_module("unittest.case", "TestCase")):
        return frozenset(dir(sys.modules["unittest.case"].TestCase))
    return _names_of_mocks() if _is_mock(target) else frozenset()


def _is_mock(target: Any) -> bool:
    """Recognize mocks, and functions made by `create_autospec`, which store a mock."""
    mock = getattr(target, "mock", None) if isinstance(target, FunctionType) else target
    return isinstance(mock, of_module("unittest.mock", "NonCallableMock"))


@cache
def _names_of_mocks() -> frozenset[str]:
    mock = sys.modules["unittest.mock"]
    return frozenset({*dir(mock.MagicMock()), *dir(mock.AsyncMock())})


@cache
def _public_names_of_mocks() -> frozenset[str]:
    return frozenset(name for name in _names_of_mocks() if not name.startswith("_"))


def _asked_of(value: Any) -> frozenset[str]:
    """Return public names that tests ask of a mock, or of an object whose class they define with methods."""
    kind = type(value)
    if _is_mock(value):
        return _public_names_of_mocks()
    if isinstance(value, Stub) or kind.__module__ != "tests" or is_data_class(kind):
        return frozenset()
    return frozenset(name for name in dir(kind) if not name.startswith("_"))


def _attribute(target: Any, name: str) -> Any:
    """Return an object's own attribute, also a mock's child, without computing it; None without one."""
    # A mock would create a child on access; a look into `_mock_children` creates none.
    own = attributes(target)
    return own.get(name, own.get("_mock_children", {}).get(name))


def _missing(some: list[Any], others: list[Any]) -> list[Any]:
    """List objects that are more often among `some` than among `others`."""
    left = Counter(map(id, others))
    found = []
    for each in some:
        left[id(each)] -= 1
        if left[id(each)] < 0:
            found.append(each)
    return found


# The place is kept alive, because Python reuses the `id` of a freed object.
_taken: dict[tuple[int, str], tuple[Any, frozenset[str]]] = {}


def check_replaced(place: Any, name: str, before: list[Any], now: list[Any]) -> None:
    """Reserve the names of test objects that the program takes from a place, of all that comes there, also later.

    Args:
        place: An object or container of the tests.
        name: The changed attribute; empty for a container.
        before: Its contents before the change.
        now: Its contents after the change.

    Raises:
        AttributeError: if an object comes that would answer by itself. An object of the tests may replace its like.
    """
    _, names = _taken.get((id(place), name), (place, frozenset()))
    objects = [each for each in before if not is_plain_type(type(each))]
    names = names.union(*map(_asked_of, _missing(objects, now)))
    if names:
        _taken[id(place), name] = place, names
        answering = []
        for each in _missing(now, before):
            # Exempt is an object of a class of the tests, which answers by the tests' own code.
            if _is_mock(each) or not _asked_of(each):
                answering.append(each)
        reserve(answering, names)


def _check_no_method(target: Any, name: Any) -> None:
    """Refuse changes of behaviour: a test object's methods, and class attributes other than data.

    Raises:
        AttributeError: if `name` is hidden or names a method.
    """
    found = getattr(type(target), _checked_name(target, name), None)
    is_class = isinstance(target, type)
    if is_class:
        found = _defined(target, name, found)
    is_computed = is_class and hasattr(type(found), "__get__")
    if callable(found) or is_computed:
        raise AttributeError(
            f"the method {name!r} of a test's object is not to be replaced"
        )


def _defined(kind: type, name: str, default: Any = None) -> Any:
    """Return a class's attribute, unbound, from the first class that defines it."""
    for base in kind.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return default


@dataclass(frozen=True)
class _Changes:
    """Changes of test objects by the program.

    Attributes:
        sources: Source code of the tests by the file name of its compilation.
    """

    sources: dict[str, str]

    def set(self, target: Any, name: Any, value: Any) -> None:
        """Set an attribute: data of any object, and methods of a class that the program decorates."""
        if not self._decorates(target, name):
            _check_no_method(target, name)
        # A mock in a new place, as in `request.user = find()`, has nothing to hide before it is called.
        is_uncalled = _is_mock(value) and not value.called
        if _is_mock(target) and not is_uncalled:
            reserve(value, _public_names_of_mocks())
        check_replaced(target, name, [_attribute(target, name)], [value])
        setattr(target, name, _among_its_like(value) if name == "__eq__" else value)

    def delete(self, target: Any, name: Any) -> None:
        """Delete an attribute under the rules of `set`."""
        if not self._decorates(target, name):
            _check_no_method(target, name)
        check_replaced(target, name, [_attribute(target, name)], [])
        delattr(target, name)

    def _decorates(self, target: Any, name: Any) -> bool:
        """Return whether the program may change a class's method now: a decorator of its own runs for this class."""
        if not _is_class_of_tests(target) or type(name) is not str:
            return False
        _check_no_tests(target)
        # The innermost frame of the tests waits for the program: its line shows whether a decorator runs.
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename not in self.sources:
            frame = frame.f_back
        if frame is None or (name[:1] == "_" and name not in CHANGED_BY_DECORATORS):
            return False
        return (target.__name__, frame.f_lineno) in _decorator_lines(
            self.sources[frame.f_code.co_filename]
        )


def _among_its_like(equality: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Restrict an `__eq__` of the program to two objects of one class; it must not compare plain results."""
    return lambda one, other: (
        equality(one, other) if type(one) is type(other) else NotImplemented
    )


@cache
def _decorator_lines(source: str) -> frozenset[tuple[str, int]]:
    """List names of decorated classes with each line of their decorators."""
    found: set[tuple[str, int]] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            for decorator in node.decorator_list:
                last = decorator.end_lineno or decorator.lineno
                found.update(
                    (node.name, line) for line in range(decorator.lineno, last + 1)
                )
    return frozenset(found)


def _special(target: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
    # A descriptor reads the object that it binds to, so that object is to be the program's.
    binds = name in BINDING and args and isinstance(args[0], Stub | RemoteClass | None)
    if name not in ALL and not binds:
        raise AttributeError(f"{name!r} is not asked of a test's object")
    _check_no_tests(target)
    kind = type(target)
    method = _defined(kind, name)
    if method is None:
        raise TypeError(f"{kind.__name__!r} object has no {name}")
    # A mock stored on the class has no `__get__`, so it is called without the object.
    bind = getattr(type(method), "__get__", None)
    if bind is not None:
        method = bind(method, target, kind)
    return method(*args, **kwargs)


def _signature(target: Any) -> list[tuple[Any, ...]]:
    """Describe parameters of a test's function or class: name, kind, whether a default exists, annotation.

    An annotation is a list of one object, or an empty list. Default values stay in the judge, since they may be
    expected values.
    """
    import inspect

    _check_no_tests(target)
    if not (inspect.isroutine(target) or _is_class_of_tests(target)):
        raise TypeError(f"{type(target).__name__!r} object has no signature")
    described = []
    for one in inspect.signature(target).parameters.values():
        annotation = [] if one.annotation is one.empty else [one.annotation]
        described.append(
            (one.name, int(one.kind), one.default is not one.empty, annotation)
        )
    return described


def _is_class_of_tests(target: Any) -> bool:
    return isinstance(target, type) and target.__module__ == "tests"


def _annotations(target: Any) -> dict[str, Any]:
    """Return the annotations of a test's function or method."""
    is_written = isinstance(target, FunctionType | MethodType)
    return dict(target.__annotations__) if is_written else {}


def _attributes(target: Any) -> dict[str, Any]:
    """Return public attributes of a test's function, or of an object whose class the tests define.

    Raises:
        AttributeError: for any other object; `functools.wraps` then copies none.
    """
    is_of_tests = isinstance(target, FunctionType) or _is_class_of_tests(type(target))
    if not is_of_tests or _of_mocks(target):
        raise AttributeError(f"vars() of a {type(target).__name__!r} object of the tests")
    held = getattr(target, "__dict__", {})
    return {name: value for name, value in held.items() if not name.startswith("_")}


def _members(target: Any) -> dict[str, Any]:
    """Return public attributes and special methods that a class of the tests itself defines; no properties."""
    _check_no_tests(target)
    if not _is_class_of_tests(target):
        return {}
    members = {}
    for name, value in vars(target).items():
        is_public = name in ASKED_OF_CLASSES or name[0] != "_"
        if not is_public or isinstance(value, property):
            continue
        is_wrapped = isinstance(value, staticmethod | classmethod)
        members[name] = getattr(target, name) if is_wrapped else value
    return members


def _copy(target: Any, how: Callable[[Any], Any]) -> Any:
    """Copy an object whose class the tests define.

    Raises:
        TypeError: for any other object.
    """
    if not _is_class_of_tests(type(target)):
        raise TypeError(f"a copy of a {type(target).__name__!r} object of the tests")
    return how(target)


def use_of(name: str, sources: dict[str, str]) -> Callable[..., Any]:
    """Return the function by which the program uses a test object, its first argument.

    Args:
        name: Name of the use, such as `call`.
        sources: Source code of the tests by the file name of its compilation.

    Raises:
        KeyError: if no use has this name.
    """
    if name in ("set", "delete"):
        use: Callable[..., Any] = getattr(_Changes(sources), name)
        return use
    return _USES[name]


_USES: dict[str, Callable[..., Any]] = {
    "call": _call,
    "get": lambda target, name: getattr(target, _checked_name(target, name)),
    "store": store,
    "special": _special,
    "signature": _signature,
    "annotations": _annotations,
    "attributes": _attributes,
    "members": _members,
    "copy": lambda target: _copy(target, copy.copy),
    "deepcopy": lambda target: _copy(target, copy.deepcopy),
    "start": tasks.start,
    "step": lambda _, number: tasks.step(number),
    "cancel": lambda _, number: tasks.cancel(number),
    "close": close,
}
