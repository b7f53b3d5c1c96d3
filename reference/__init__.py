"""The pages of reference, written from the code: every flag, every metric, beside the original's.

`python -m reference` (`make docs`) writes them; tests say when they are not current.
"""
