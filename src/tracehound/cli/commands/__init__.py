"""The commands of the command line: a module for each, whose `run` executes it and returns the exit code.

Each module imports only what it needs: imports are half of the start-up time of a command.
"""
