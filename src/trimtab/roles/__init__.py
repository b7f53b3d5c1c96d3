"""The role keeper: whoever holds a workload's lease wears a label, and nobody else does."""
