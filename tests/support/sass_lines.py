"""Lines of SASS with the words that tests want behind them."""


def sass_line(text, stall=1, *, written=7, read=7, waits=()):
    """An instruction as ``nvdisasm -hex`` prints it, with the compiler's schedule alone."""
    mask = sum(1 << number for number in waits)
    high = stall << 41 | 1 << 45 | written << 46 | read << 49 | mask << 52
    return f"{text} ;  /* 0x{0:016x} */ /* 0x{high:016x} */"
