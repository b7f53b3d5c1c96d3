"""The cluster of `trimtab demo`."""
