"""The components as commands."""
