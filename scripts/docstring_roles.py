"""A griffe extension: what docstrings say in Sphinx's words, for pages that are Markdown.

A role, such as ``:func:`build```, names a thing; in the site it is that name as code, without the
modules it lies in where it begins with ``~``.
"""

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|exc|obj):`(~?)([^`]+)`")


def as_code(match: re.Match[str]) -> str:
    """The name of a role as code of Markdown."""
    short, name = match.groups()
    return f"`{name.rpartition('.')[2] if short else name}`"


class DocstringRoles(griffe.Extension):
    """Rewrite roles in all docstrings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite those of an object as soon as it is read."""
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(as_code, obj.docstring.value)
