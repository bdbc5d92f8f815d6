"""A committed plan or report held against another, or against today's program."""
