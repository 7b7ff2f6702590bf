"""Quadrature, minimisation and sampling; knows no physics."""
