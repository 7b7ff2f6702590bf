"""Where training goes: the risk off the manifold M, its flows and its minima."""
