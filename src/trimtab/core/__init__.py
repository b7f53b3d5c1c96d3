"""Decisions: pure functions over frozen records and arrays; no I/O, clock, chance or logging."""
