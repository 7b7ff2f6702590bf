"""What the attention scores of a trained head say about its retrieval."""

from slrlab.experiments.diagnosis.fit import LengthPrediction
from slrlab.experiments.diagnosis.head import (
    HeadDiagnosis,
    diagnose_file,
    diagnose_scores,
)

__all__ = ["HeadDiagnosis", "LengthPrediction", "diagnose_file", "diagnose_scores"]
