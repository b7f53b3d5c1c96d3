"""Checks of an installation by `trimtab doctor`."""
