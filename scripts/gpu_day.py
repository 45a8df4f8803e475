"""``tvm-iree-ext gpu-day`` in this clone: see ``scripts/gpu-day --help``."""

import importlib.metadata
import sys

if __name__ == "__main__":
    found = importlib.metadata.entry_points(group="console_scripts", name="tvm-iree-ext")
    main = next(iter(found)).load()
    sys.exit(main(["gpu-day", *sys.argv[1:]]))
