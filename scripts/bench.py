"""``tvm-iree-ext bench`` in this clone: see ``scripts/bench --help``."""

import importlib.metadata
import sys

if __name__ == "__main__":
    found = importlib.metadata.entry_points(group="console_scripts", name="tvm-iree-ext")
    main = next(iter(found)).load()
    sys.exit(main(["bench", *sys.argv[1:]]))
