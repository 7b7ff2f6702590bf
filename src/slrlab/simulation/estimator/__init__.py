"""Attention as a scikit-learn estimator, and a scaler of sequences."""
