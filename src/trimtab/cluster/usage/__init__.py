"""Sources of usage and pressure: metrics API, external metrics, Prometheus, kubelets."""
