"""What a plan evaluates to: values with kinds, intervals, inputs, attribution, moves."""
