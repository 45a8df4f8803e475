"""Functions that are added to the text of a module."""

import re
from collections.abc import Iterable

_MODULE = re.compile(r"^module\b.*\{$", re.MULTILINE)


def with_functions(text: str, functions: Iterable[str]) -> str:
    """The text with functions at the begin of its module, or of itself where it names none."""
    start = _MODULE.search(text)
    at = start.end() + 1 if start else 0
    return f"{text[:at]}{''.join(one.strip() + chr(10) for one in functions)}{text[at:]}"
