"""Evaluates the book for a plan: exactly, over arrays, by derivative."""
