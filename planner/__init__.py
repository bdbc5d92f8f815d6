"""A declarative planner for training large language models."""
