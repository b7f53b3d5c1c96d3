"""Trimtab: a Vertical Pod Autoscaler for Kubernetes."""

__version__ = "0.1.0"
