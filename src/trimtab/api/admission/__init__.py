"""Admission reviews, new pods and certificates."""
