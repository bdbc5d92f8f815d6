"""The version of the program; the packaging and the reports read it here."""

__version__ = "0.1.0"
