"""Inverse questions: the value of an unknown at which a plan meets its limits.

``questions`` defines the questions by name; ``solve`` finds the last feasible value, ``optimum``
the best one, ``solve_with_layout`` either with a free layout; ``answers`` prints them.
"""
