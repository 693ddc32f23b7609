"""From when to when: windows, steps, and what lies only in part inside them."""
