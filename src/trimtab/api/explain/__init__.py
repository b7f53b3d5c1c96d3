"""The documents of explanations."""
