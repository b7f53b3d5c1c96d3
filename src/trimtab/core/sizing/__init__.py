"""Sizes of pods: caps, limits, nodes, quotas, startup boosts, and the patches that carry them."""
