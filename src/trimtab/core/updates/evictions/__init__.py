"""Evictions: the successors of evicted pods, their nodes and revisions."""
