"""Rules that no run may break."""
