"""Evictions: their checks, and the successors of evicted pods."""
