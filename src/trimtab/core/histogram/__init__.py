"""Decaying histograms of usage, kept as rows of a bank."""
