"""What samples say of the model; never imports theory."""
