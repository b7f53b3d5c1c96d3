"""Changes of running pods: how urgent they are, and the outcomes of a plan."""
