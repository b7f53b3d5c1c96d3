"""The only code that touches the network, and the ports through which components see it."""
