"""Objects, time and journal of a simulated cluster."""
