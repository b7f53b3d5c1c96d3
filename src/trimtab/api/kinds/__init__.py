"""Wire records of each kind of object."""
