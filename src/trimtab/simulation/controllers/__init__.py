"""Simulated controllers of workloads."""
