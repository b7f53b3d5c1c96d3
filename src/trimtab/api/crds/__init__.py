"""The two custom resource definitions, as YAML, and checks against them."""
