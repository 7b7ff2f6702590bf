"""The task and the predictor; nothing about how they are solved."""

from slrlab.model import atlas as atlas
