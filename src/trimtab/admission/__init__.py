"""From recommendations to new pods: one review in, one verdict out."""
