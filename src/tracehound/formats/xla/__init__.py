"""Meaning of XLA profiles, in whatever format they are stored: names, kinds, op costs, module executions."""
