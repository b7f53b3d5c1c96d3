"""The rig: a real Kubernetes control plane on loopback, for tests and for trying things out."""
