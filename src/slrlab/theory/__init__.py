"""Theory of the model; it never imports simulation."""
