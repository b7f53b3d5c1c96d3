"""Sources of usage: metrics API, external metrics, Prometheus."""
