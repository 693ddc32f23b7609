"""What the explorer says, and in which colours."""
