"""Sequences drawn from a task, packed without padding, and risks measured on them."""
