"""The command line: a module for each command, and the code they share.

Nothing else in parki imports it.
"""
