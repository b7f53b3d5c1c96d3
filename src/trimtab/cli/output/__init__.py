"""Output of commands: columns, CSV, files."""
