"""What ranks do with each other: collectives, process groups, clocks, and who was late."""
