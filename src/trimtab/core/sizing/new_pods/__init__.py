"""Sizes of the containers of new pods, and what carries them into the pod."""
