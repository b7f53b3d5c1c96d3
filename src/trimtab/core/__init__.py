"""Decisions: pure functions over frozen records and arrays; no I/O, clock, randomness or logging."""
