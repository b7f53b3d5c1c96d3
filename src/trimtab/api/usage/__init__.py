"""Wire records of usage: metrics API, external metrics, Prometheus."""
