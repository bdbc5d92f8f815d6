"""A plan and its model: completion, shapes, pipeline stages, sustained rates, kernels."""
