"""The formula book: importing this package registers every quantity."""
