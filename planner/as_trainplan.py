"""The package by the name of its distribution: ``import trainplan`` is ``import planner``."""

import sys

import planner

sys.modules["trainplan"] = planner
