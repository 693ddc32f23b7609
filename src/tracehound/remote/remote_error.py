"""The failures of remote objects, each in one line with a remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tracehound.errors import TracehoundError

FailureReason = Literal[
    "no_bucket",
    "no_object",
    "denied",
    "no_credentials",
    "wrong_region",
    "throttled",
    "lost",
    "changed",
    "unreachable",
    "no_listing",
    "not_installed",
    "refused",
]
"""The ways in which a request fails.

`lost`: the connection broke, and the same request may go on from where it broke. `changed`: the object is another one
than when it was found. `unreachable`: no connection to the host. `no_listing`: web servers do not list objects.
`not_installed`: a package is missing. `refused`: any other answer that is an error.
"""


@dataclass(eq=False)
class RemoteError(TracehoundError):
    """A failed request to a bucket or a web server. The message has no secrets in it."""

    reason: FailureReason = "refused"

    def __reduce__(self) -> tuple[type[RemoteError], tuple[object, ...]]:
        """Errors travel from worker processes."""
        return (type(self), (self.message, self.path, self.where, self.remedy, self.code, self.reason))
