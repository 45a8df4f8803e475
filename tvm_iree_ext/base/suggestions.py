"""What somebody may have meant by a word that is not known: the one place for such guesses."""

import difflib
import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

_NEAR = 0.6  # difflib's own ratio for words that are alike


def meant(word: object, known: Iterable[str], also: Mapping[str, str] | None = None) -> str | None:
    """The known name that is nearest to a word, or None where none is near.

    Args:
        word: what came.
        known: all names that are taken.
        also: what else people write, in small letters, and the name that they mean by it.
    """
    names = {_folded(name): name for name in known}
    names |= {_folded(other): name for other, name in (also or {}).items()}
    folded = _folded(str(word))
    near = difflib.get_close_matches(folded, names, 1, _NEAR)
    return names[folded] if folded in names else names[near[0]] if near else None


def did_you_mean(word: object, known: Iterable[str], also: Mapping[str, str] | None = None) -> str:
    """``; did you mean 'attention'?`` for a message, empty where no name is near."""
    return "" if (name := meant(word, known, also)) is None else f"; did you mean {name!r}?"


def suggesting(function: _Function) -> _Function:
    """The function; its TypeError for a mistyped argument's name says which may have been meant.

    ``scan() got an unexpected keyword argument 'dimenson'; did you mean 'dimension'?``  Its
    signature stays, and a call that is right takes no longer than one more call in Python.
    """

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TypeError:
            import inspect

            known = inspect.signature(function).parameters
            unknown = next((name for name in named if name not in known), None)
            if unknown is None:
                raise
            raise TypeError(
                f"{function.__name__}() got an unexpected keyword argument {unknown!r}"
                f"{did_you_mean(unknown, known)}"
            ) from None

    return call  # type: ignore[return-value]


def near_file(path: Path | str) -> str:
    """The same for a file that is not there, by the names beside it."""
    path = Path(path)
    try:
        names = [one.name for one in path.absolute().parent.iterdir()]
    except OSError:
        return ""
    name = meant(path.name, names)
    return "" if name is None else f"; did you mean {str(path.with_name(name))!r}?"


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")
