"""Python source under construction: nested scopes, and expressions put where they change least.

An expression without loads is *pure*: it is computed once, in the outermost scope in which all of
its variables are known, and found again by its text.  So the lanes' part of an index is computed
before the loops, and inside there is one addition left.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Code(NamedTuple):
    """An expression in Python.

    Attributes:
        uniform: whether it is one value for all lanes, surely.
        depth: the scope from which on it is known; None for one that is not pure, which is valid
            only where it was emitted.
        constant: the value of an integer constant.
    """

    text: str
    uniform: bool
    depth: int | None = None
    constant: int | None = None

    @property
    def pure(self) -> bool:
        """Whether it may be computed anywhere its variables are known."""
        return self.depth is not None


@dataclass
class _LineScope:
    lines: list[str] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)  # text of a pure expression -> its name


class PythonEmitter:
    """Lines of a function, in scopes that are open at the same time."""

    def __init__(self) -> None:
        self._scopes = [_LineScope()]
        self._names = 0
        self.objects: dict[str, Any] = {}  # what the source refers to by name
        self._object_names: dict[Any, str] = {}

    @property
    def depth(self) -> int:
        """Depth of the innermost scope."""
        return len(self._scopes) - 1

    def line(self, text: str, depth: int | None = None) -> None:
        """Append a line to a scope: the innermost, if not another."""
        self._scopes[self.depth if depth is None else depth].lines.append(text)

    def open(self) -> None:
        """A scope inside."""
        self._scopes.append(_LineScope())

    def close(self, header: str) -> None:
        """End the innermost scope: its lines follow ``header``, indented."""
        lines = self._scopes.pop().lines or ["pass"]
        outer = self._scopes[-1].lines
        outer.append(header)
        outer += [f"    {line}" for line in lines]

    def name(self, hint: str) -> str:
        """A new name."""
        self._names += 1
        word = "".join(c if c.isalnum() else "_" for c in hint)
        return f"{word or 'v'}_{self._names}"

    def object(self, key: Any, value: Any, hint: str) -> str:
        """The name under which the source finds a Python object."""
        if key not in self._object_names:
            self._object_names[key] = name = self.name(f"K{hint}")
            self.objects[name] = value
        return self._object_names[key]

    def pure(self, text: str, uniform: bool, depth: int) -> Code:
        """A pure expression, computed in scope ``depth``, once."""
        for scope in self._scopes[: depth + 1]:
            if text in scope.known:
                return Code(scope.known[text], uniform, depth)
        name = self.name("u" if uniform else "x")
        self._scopes[depth].known[text] = name
        self.line(f"{name} = {text}", depth)
        return Code(name, uniform, depth)

    def here(self, text: str, uniform: bool, hint: str = "t") -> Code:
        """Any other expression, computed now."""
        name = self.name(hint)
        self.line(f"{name} = {text}")
        return Code(name, uniform)

    def source(self, header: str) -> str:
        """The function's text."""
        body = "\n".join(f"    {line}" for line in self._scopes[0].lines or ["pass"])
        return f"{header}\n{body}\n"
