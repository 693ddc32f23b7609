"""Bytes of one file -> a `Part`. `FORMATS` is the literal list of what can be read.

A format is recognised by the first bytes of a file, never by its name.
"""

from __future__ import annotations
