"""What mathematics says of the model; never imports simulation."""
