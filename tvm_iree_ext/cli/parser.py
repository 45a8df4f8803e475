"""Command lines: a parser that says what a mistyped word may have meant, and types of arguments."""

import argparse
from collections.abc import Sequence
from typing import Any

from tvm_iree_ext.base.suggestions import did_you_mean, meant


class CommandParser(argparse.ArgumentParser):
    """A parser whose complaints suggest options and choices; so are those of its commands."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.set_defaults(parser=self)  # the innermost that is used stays in what it gives

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError:
            hint = did_you_mean(value, map(str, action.choices or ()))
            if not hint:
                raise
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint}") from None

    def unrecognized(self, words: Sequence[str]) -> str:
        """A complaint about words that are neither options nor operands."""
        options = [option for option in self._option_string_actions if option.startswith("--")]
        hints = (
            (word, meant(word.partition("=")[0], options)) for word in words if word[:1] == "-"
        )
        hint = next((f"; did you mean {name!r}?" for _, name in hints if name is not None), "")
        return f"unrecognized arguments: {' '.join(words)}{hint}"


def count_from(least: int) -> Any:
    """An argparse type for a whole number from ``least``."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least}")
        return int(text)

    return parse
