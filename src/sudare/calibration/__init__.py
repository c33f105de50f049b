"""From a target guarantee to a noise scale, an inverse temperature or a flip probability.

Pure functions of public numbers: nothing here ever sees data. Every result is rounded to the safe
side, so that putting it back into the exact formula never exceeds the target.

    gradients    how far one record moves the gradient of a regression
    shifts       Gaussian noise against shifts that depend on it
    regression   objective and output perturbation for ridge and logistic regression
    sessions     how far one row moves a pooled gradient and Hessian
    posterior    inverse temperatures of Gibbs posteriors
    counting     errors of continual counting, before any report is in

The inverse curves and the law of masks, which the foundations use themselves, are handed on.
"""

from sudare.calibration._counting import (
    dense_condition,
    error_bound,
    flip_error_bound,
    reporters_exponent,
)
from sudare.calibration._gradients import (
    logistic_gradient_bound,
    logistic_gradient_diameter,
    ridge_gradient_bound,
    ridge_gradient_diameter,
)
from sudare.calibration._posterior import (
    gaussian_inverse_temperature,
    inverse_temperature,
    normal_mean_inverse_temperature,
    normal_mean_model,
    normal_mean_variance,
    posterior_mu,
    total_variation_slack,
)
from sudare.calibration._regression import (
    ObjectiveNoise,
    logistic_objective,
    logistic_output_sensitivity,
    ridge_objective,
    ridge_output_sensitivity,
)
from sudare.calibration._sessions import (
    SESSION_WEIGHT,
    poisson_session_sensitivity,
    session_sensitivity,
)
from sudare.foundations.gaussian import (
    concentrated_rho,
    gaussian_mu,
    lattice_log_ratio,
    near_gaussian_mu,
)
from sudare.foundations.masks import (
    MAX_SLOTS,
    MaskLaw,
    best_mask_law,
    estimate_variance,
    flip_probability,
    flip_threshold,
    mask_law,
    truth_probability,
)

__all__ = [
    "MAX_SLOTS",
    "SESSION_WEIGHT",
    "MaskLaw",
    "ObjectiveNoise",
    "best_mask_law",
    "concentrated_rho",
    "dense_condition",
    "error_bound",
    "estimate_variance",
    "flip_error_bound",
    "flip_probability",
    "flip_threshold",
    "gaussian_inverse_temperature",
    "gaussian_mu",
    "inverse_temperature",
    "lattice_log_ratio",
    "logistic_gradient_bound",
    "logistic_gradient_diameter",
    "logistic_objective",
    "logistic_output_sensitivity",
    "mask_law",
    "near_gaussian_mu",
    "normal_mean_inverse_temperature",
    "normal_mean_model",
    "normal_mean_variance",
    "poisson_session_sensitivity",
    "posterior_mu",
    "reporters_exponent",
    "ridge_gradient_bound",
    "ridge_gradient_diameter",
    "ridge_objective",
    "ridge_output_sensitivity",
    "session_sensitivity",
    "total_variation_slack",
    "truth_probability",
]
