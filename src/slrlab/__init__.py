"""slrlab: the statistical advantage of softmax attention in single-location regression.

Importing the package is cheap: no compilation and no plotting library.
"""

from slrlab._errors import (
    CheckpointWarning,
    ClusterError,
    ComputationError,
    ConvergenceWarning,
    NotFittedError,
    SlrlabError,
    StoreError,
    TooLargeError,
)
from slrlab._result import Estimate, Result, Status
from slrlab.experiments.atlas.activations import ActivationComparison, compare
from slrlab.experiments.atlas.best_maps import BestMap, best_elementwise, best_normalised
from slrlab.experiments.atlas.bias_limit import BiasLimit, bias_limit
from slrlab.experiments.atlas.properties import lacks, properties
from slrlab.experiments.comparison.amp import AmpComparison, compare_amp
from slrlab.experiments.comparison.labels import LabelPoint, LabelsWorth, labels_worth
from slrlab.experiments.comparison.universality import LawVerdict, Universality, universality
from slrlab.experiments.departures import Departure, DeparturePoint, best_activation, departure
from slrlab.experiments.descent.flows import FlowComparison, compare_descent, compare_sgd
from slrlab.experiments.descent.specialisation import (
    Specialisation,
    Stages,
    specialisation,
    stages_of,
)
from slrlab.experiments.descent.sphere import SphereTraining, compare_sphere, sphere_training
from slrlab.experiments.diagnosis import (
    HeadDiagnosis,
    LengthPrediction,
    diagnose_file,
    diagnose_scores,
)
from slrlab.experiments.haystack import Haystack, draw_haystack
from slrlab.experiments.requirements.require import Need, Requirement, require
from slrlab.experiments.retrieval.capacity import CapacityPoint, CapacityTest, capacity_test
from slrlab.experiments.retrieval.study import RetrievalStudy, retrieval_study
from slrlab.experiments.sweeps import Store, Sweep, SweepSummary, read_sweep, run_sweep
from slrlab.experiments.transfer import LengthTransfer, TransferPoint, length_transfer
from slrlab.model.activations import (
    Activation,
    Elementwise,
    Normalised,
    Projection,
    ScalarMap,
    make_activation,
    register_activation,
)
from slrlab.model.arrangements import ArrangementTask, TokenKind
from slrlab.model.families import (
    CosineReweighted,
    LengthScaled,
    NormMax,
    Ratio,
    StickBreaking,
    TopK,
)
from slrlab.model.heads import MultiHeadSLR
from slrlab.model.heads_path import HeadsOverlaps, HeadsPath
from slrlab.model.lengths import LengthLaw, LengthLike
from slrlab.model.marion import MarionSLR
from slrlab.model.measured import MeasuredTask
from slrlab.model.neighbours import HardNegativeSLR, NeedlesSLR, VarianceSLR
from slrlab.model.order_parameters import FullOrderParameters, OrderParameters
from slrlab.model.setting import Setting
from slrlab.model.sphere import Sphere
from slrlab.model.task_registry import make_task, register_task
from slrlab.model.tasks import MaxSLR, SelectionTask, SpikedSLR, Task, TiltedTask
from slrlab.model.token_laws import TokenLaw
from slrlab.simulation.data.dataset import Dataset, Teacher, draw_dataset
from slrlab.simulation.descent.full_batch import gradient_descent
from slrlab.simulation.descent.stochastic import online_sgd, sgd
from slrlab.simulation.descent.trajectory import Trajectory
from slrlab.simulation.estimator.attention import SingleLocationAttention
from slrlab.simulation.estimator.keys import KeyFit, fit_keys, fit_values
from slrlab.simulation.estimator.scaler import SequenceScaler
from slrlab.simulation.heads.sgd import heads_sgd
from slrlab.simulation.message_passing.amp import AmpRun, AmpSimulation, run_amp
from slrlab.simulation.training.erm import ErmRun, ErmSimulation, simulate_erm
from slrlab.simulation.training.labels import LabelSimulation, simulate_labels
from slrlab.simulation.training.objective import Weights
from slrlab.theory.bayes_optimal import (
    AmpStateEvolution,
    BayesOptimal,
    BayesThresholds,
    amp_state_evolution,
    bayes_optimal,
    bayes_thresholds,
)
from slrlab.theory.erm import (
    CorrelatedTheory,
    ErmBranch,
    ErmTheory,
    LargeAlpha,
    RidgeMap,
    correlated_theory,
    erm_theory,
    large_alpha,
    optimal_ridge,
    ridge_map,
)
from slrlab.theory.heads import (
    HeadOptimum,
    HeadsBayesRisk,
    HeadsMoments,
    HeadsRisk,
    heads_bayes_risk,
    heads_flow,
    heads_moments,
    heads_risk,
)
from slrlab.theory.landscape import (
    Flow,
    FlowEnsemble,
    LocalMinima,
    Minimum,
    MinimumBranch,
    RiskGradient,
    TabulatedLandscape,
    flow_ensemble,
    follow_minimum,
    gradient_flow,
    local_minima,
    minimum_branches,
    minimum_from,
    risk_and_gradient,
    sgd_flow,
    sphere_flow,
    tabulate,
)
from slrlab.theory.population.bayes_risk import BayesRisk, bayes_risk
from slrlab.theory.population.hit_rate import hit_rate
from slrlab.theory.population.minimal import (
    PopulationRisk,
    RiskProfile,
    minimal_risk,
    risk_at,
    risk_profile,
)
from slrlab.theory.population.parts import ExcessParts, excess_parts
from slrlab.theory.population.weight_statistics import WeightStatistics, weight_statistics

__version__ = "1.0.0"

__all__ = [
    "Activation",
    "ActivationComparison",
    "AmpComparison",
    "AmpRun",
    "AmpSimulation",
    "AmpStateEvolution",
    "ArrangementTask",
    "BayesOptimal",
    "BayesRisk",
    "BayesThresholds",
    "BestMap",
    "BiasLimit",
    "CapacityPoint",
    "CapacityTest",
    "CheckpointWarning",
    "ClusterError",
    "ComputationError",
    "ConvergenceWarning",
    "CorrelatedTheory",
    "CosineReweighted",
    "Dataset",
    "Departure",
    "DeparturePoint",
    "Elementwise",
    "ErmBranch",
    "ErmRun",
    "ErmSimulation",
    "ErmTheory",
    "Estimate",
    "ExcessParts",
    "Flow",
    "FlowComparison",
    "FlowEnsemble",
    "FullOrderParameters",
    "HardNegativeSLR",
    "Haystack",
    "HeadDiagnosis",
    "HeadOptimum",
    "HeadsBayesRisk",
    "HeadsMoments",
    "HeadsOverlaps",
    "HeadsPath",
    "HeadsRisk",
    "KeyFit",
    "LabelPoint",
    "LabelSimulation",
    "LabelsWorth",
    "LargeAlpha",
    "LawVerdict",
    "LengthLaw",
    "LengthLike",
    "LengthPrediction",
    "LengthScaled",
    "LengthTransfer",
    "LocalMinima",
    "MarionSLR",
    "MaxSLR",
    "MeasuredTask",
    "Minimum",
    "MinimumBranch",
    "MultiHeadSLR",
    "Need",
    "NeedlesSLR",
    "NormMax",
    "Normalised",
    "NotFittedError",
    "OrderParameters",
    "PopulationRisk",
    "Projection",
    "Ratio",
    "Requirement",
    "Result",
    "RetrievalStudy",
    "RidgeMap",
    "RiskGradient",
    "RiskProfile",
    "ScalarMap",
    "SelectionTask",
    "SequenceScaler",
    "Setting",
    "SingleLocationAttention",
    "SlrlabError",
    "Specialisation",
    "Sphere",
    "SphereTraining",
    "SpikedSLR",
    "Stages",
    "Status",
    "StickBreaking",
    "Store",
    "StoreError",
    "Sweep",
    "SweepSummary",
    "TabulatedLandscape",
    "Task",
    "Teacher",
    "TiltedTask",
    "TokenKind",
    "TokenLaw",
    "TooLargeError",
    "TopK",
    "Trajectory",
    "TransferPoint",
    "Universality",
    "VarianceSLR",
    "WeightStatistics",
    "Weights",
    "amp_state_evolution",
    "bayes_optimal",
    "bayes_risk",
    "bayes_thresholds",
    "best_activation",
    "best_elementwise",
    "best_normalised",
    "bias_limit",
    "capacity_test",
    "compare",
    "compare_amp",
    "compare_descent",
    "compare_sgd",
    "compare_sphere",
    "correlated_theory",
    "departure",
    "diagnose_file",
    "diagnose_scores",
    "draw_dataset",
    "draw_haystack",
    "erm_theory",
    "excess_parts",
    "fit_keys",
    "fit_values",
    "flow_ensemble",
    "follow_minimum",
    "gradient_descent",
    "gradient_flow",
    "heads_bayes_risk",
    "heads_flow",
    "heads_moments",
    "heads_risk",
    "heads_sgd",
    "hit_rate",
    "labels_worth",
    "lacks",
    "large_alpha",
    "length_transfer",
    "local_minima",
    "make_activation",
    "make_task",
    "minimal_risk",
    "minimum_branches",
    "minimum_from",
    "online_sgd",
    "optimal_ridge",
    "properties",
    "read_sweep",
    "register_activation",
    "register_task",
    "require",
    "retrieval_study",
    "ridge_map",
    "risk_and_gradient",
    "risk_at",
    "risk_profile",
    "run_amp",
    "run_sweep",
    "sgd",
    "sgd_flow",
    "simulate_erm",
    "simulate_labels",
    "specialisation",
    "sphere_flow",
    "sphere_training",
    "stages_of",
    "tabulate",
    "universality",
    "weight_statistics",
]
