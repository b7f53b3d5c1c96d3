"""The command line: parses flags, wires components, and nothing else."""
