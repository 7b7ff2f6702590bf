"""Where theory meets simulation: claims, sweeps, comparison."""
