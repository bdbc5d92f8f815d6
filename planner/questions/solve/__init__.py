"""Questions asked backwards: the value of an unknown at which a plan keeps its limits.

``questions`` knows the questions by name; ``solve`` finds the last value that holds, ``optimum``
the best one, ``solve_with_layout`` either with the layout free; ``answers`` prints them.
"""
