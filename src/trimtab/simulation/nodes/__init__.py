"""Simulated scheduler, kubelet and containers."""
