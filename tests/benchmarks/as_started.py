"""Settles in a process of its own what the program settles before libraries are imported: import it before these."""

from tracehound.__main__ import prepare_environment

prepare_environment()
