"""Encoding and decoding of values that all kinds share."""
