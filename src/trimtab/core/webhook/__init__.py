"""Keys, registration and load of the admission webhook."""
