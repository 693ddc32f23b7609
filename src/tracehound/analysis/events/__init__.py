"""Events as rows and times: what keeps a device busy, on which clock, and how long."""
