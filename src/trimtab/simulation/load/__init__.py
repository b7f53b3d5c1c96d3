"""Usage that simulated containers have."""
