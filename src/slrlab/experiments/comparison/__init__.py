"""Theory beside simulation at the same setting, with tests of the difference."""
