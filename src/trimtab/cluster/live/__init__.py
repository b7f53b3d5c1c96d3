"""The ports, on a real cluster."""
