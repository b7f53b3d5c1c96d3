"""Faults and hazards of a run."""
