"""The command line of slrlab."""
