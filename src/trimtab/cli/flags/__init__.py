"""Flags of components and commands."""
