"""The cost-based estimator: targets that are held until holding them costs too much."""
