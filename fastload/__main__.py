"""``python -m fastload``: the command ``fastload``."""

import sys

from fastload.cli import main

sys.exit(main())
