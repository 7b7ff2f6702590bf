"""slrlab: the statistical advantage of softmax attention in single-location regression.

Importing the package is cheap: no compilation and no plotting library.
"""

from slrlab._errors import (
    ClusterError,
    ComputationError,
    ConvergenceWarning,
    NotFittedError,
    SlrlabError,
    StoreError,
    TooLargeError,
)
from slrlab._result import Estimate, Result, Status
from slrlab.experiments.activations import ActivationComparison, compare
from slrlab.experiments.amp import AmpComparison, compare_amp
from slrlab.experiments.best_maps import (
    BestMap,
    BiasLimit,
    best_elementwise,
    best_normalised,
    bias_limit,
)
from slrlab.experiments.diagnosis import (
    HeadDiagnosis,
    LengthPrediction,
    diagnose_file,
    diagnose_scores,
)
from slrlab.experiments.flows import FlowComparison, compare_descent, compare_sgd
from slrlab.experiments.haystack import Haystack, draw_haystack
from slrlab.experiments.properties import lacks, properties
from slrlab.experiments.requirements import Need, Requirement, require
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
from slrlab.model.families import LengthScaled, Ratio, StickBreaking, TopK
from slrlab.model.lengths import LengthLaw, LengthLike
from slrlab.model.measured import MeasuredTask
from slrlab.model.order_parameters import FullOrderParameters, OrderParameters
from slrlab.model.setting import Setting
from slrlab.model.tasks import (
    MaxSLR,
    SelectionTask,
    SpikedSLR,
    Task,
    TiltedTask,
    make_task,
    register_task,
)
from slrlab.simulation.data.dataset import Dataset, Teacher, draw_dataset
from slrlab.simulation.descent.full_batch import gradient_descent
from slrlab.simulation.descent.stochastic import online_sgd, sgd
from slrlab.simulation.descent.trajectory import Trajectory
from slrlab.simulation.estimator.attention import SingleLocationAttention
from slrlab.simulation.estimator.scaler import SequenceScaler
from slrlab.simulation.message_passing.amp import AmpRun, AmpSimulation, run_amp
from slrlab.simulation.training.erm import ErmRun, ErmSimulation, simulate_erm
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
    ErmBranch,
    ErmTheory,
    LargeAlpha,
    RidgeMap,
    erm_theory,
    large_alpha,
    optimal_ridge,
    ridge_map,
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

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "ActivationComparison",
    "AmpComparison",
    "AmpRun",
    "AmpSimulation",
    "AmpStateEvolution",
    "BayesOptimal",
    "BayesRisk",
    "BayesThresholds",
    "BestMap",
    "BiasLimit",
    "ClusterError",
    "ComputationError",
    "ConvergenceWarning",
    "Dataset",
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
    "Haystack",
    "HeadDiagnosis",
    "LargeAlpha",
    "LengthLaw",
    "LengthLike",
    "LengthPrediction",
    "LengthScaled",
    "LengthTransfer",
    "LocalMinima",
    "MaxSLR",
    "MeasuredTask",
    "Minimum",
    "MinimumBranch",
    "Need",
    "Normalised",
    "NotFittedError",
    "OrderParameters",
    "PopulationRisk",
    "Projection",
    "Ratio",
    "Requirement",
    "Result",
    "RidgeMap",
    "RiskGradient",
    "RiskProfile",
    "ScalarMap",
    "SelectionTask",
    "SequenceScaler",
    "Setting",
    "SingleLocationAttention",
    "SlrlabError",
    "SpikedSLR",
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
    "TooLargeError",
    "TopK",
    "Trajectory",
    "TransferPoint",
    "WeightStatistics",
    "Weights",
    "amp_state_evolution",
    "bayes_optimal",
    "bayes_risk",
    "bayes_thresholds",
    "best_elementwise",
    "best_normalised",
    "bias_limit",
    "compare",
    "compare_amp",
    "compare_descent",
    "compare_sgd",
    "diagnose_file",
    "diagnose_scores",
    "draw_dataset",
    "draw_haystack",
    "erm_theory",
    "excess_parts",
    "flow_ensemble",
    "follow_minimum",
    "gradient_descent",
    "gradient_flow",
    "hit_rate",
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
    "ridge_map",
    "risk_and_gradient",
    "risk_at",
    "risk_profile",
    "run_amp",
    "run_sweep",
    "sgd",
    "sgd_flow",
    "simulate_erm",
    "tabulate",
    "weight_statistics",
]
