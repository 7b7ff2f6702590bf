"""Data drawn from the model, and what is learned from them; never imports theory."""
