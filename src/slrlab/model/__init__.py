"""The task and the predictor; nothing about how they are solved."""
