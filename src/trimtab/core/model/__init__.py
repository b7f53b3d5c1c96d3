"""Records of the objects that decisions are about: pods, autoscalers, workloads, nodes, limits."""
