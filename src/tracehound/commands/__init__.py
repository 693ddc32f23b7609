"""The commands of the command line: a module for each, whose `run` does what was asked and gives the exit code.

Each imports what it needs and what no other command does: that is half of the time in which a headless run starts.
"""
