"""The command line: a module for each command, and what they share.

Nothing else of parki imports it.
"""
