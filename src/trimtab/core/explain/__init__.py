"""Explanations of numbers and decisions, step by step."""
