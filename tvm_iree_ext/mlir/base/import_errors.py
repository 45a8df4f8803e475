"""What cannot be imported, before it is one error with all that a file holds of it."""


class Unsupported(Exception):
    """What an operation holds that is not supported: the message says it, and what is instead."""


UNFORESEEN = "cannot be imported"
"""In a message: not what is known to be unsupported, but what nobody reckoned with."""
