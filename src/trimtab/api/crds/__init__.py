"""The two custom resource definitions."""
