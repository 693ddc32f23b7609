"""Times of devices, steps and windows: busy intervals, device clocks, step bounds, and groups of rows."""
