"""Work, memory and peak rates of devices."""
