"""Tells libraries what the program tells them, for measurements in a process of their own: import it before these."""

import os

from tracehound.__main__ import ENVIRONMENT

os.environ.update(ENVIRONMENT)
