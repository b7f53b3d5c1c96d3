"""From recommendations to running pods: observe, plan, act."""
