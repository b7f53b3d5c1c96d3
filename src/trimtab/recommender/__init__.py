"""From usage to recommendations: observe, decide, publish."""
