"""``python -m tvm_iree_ext``: the command ``tvm-iree-ext``."""

import sys

from tvm_iree_ext.cli.main import main

sys.exit(main())
