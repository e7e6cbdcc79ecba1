"""``python -m fastload``."""

import sys

from fastload.cli import main

sys.exit(main())
