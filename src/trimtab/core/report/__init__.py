"""Right-sizing of workloads with and without autoscalers."""
