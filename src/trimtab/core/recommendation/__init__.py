"""From histograms to published recommendations."""
