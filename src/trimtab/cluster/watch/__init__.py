"""Lists, watches, and the stores that they feed."""
