"""Descent in ``R^D`` beside the flow of its order parameters."""
