"""Kubeconfigs, credentials and trust."""
