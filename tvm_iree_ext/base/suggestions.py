"""What somebody may have meant by a word that is not known: the one place for such guesses."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path

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
