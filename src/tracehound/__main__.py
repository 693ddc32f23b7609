"""``python -m tracehound``: the same as the command ``tracehound``."""

from __future__ import annotations

import sys

from tracehound.cli import main

sys.exit(main())
