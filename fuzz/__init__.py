"""Hostile input: documents made and mutated at random, run through the command line.

`python -m fuzz.campaign` runs many documents, `python -m fuzz.readers` the YAML reader and the
unit parser; `make fuzz` runs both. tests/fuzz/ holds a short, bounded run.
"""
