"""The formulas as one graph of operations over many rows: what a search runs through NumPy.

``graph`` writes it, ``table`` says which rows agree in what a node depends on, ``program``
runs each node once for each distinct combination.
"""
