"""From a target guarantee to a noise scale, an inverse temperature or a flip probability.

Pure functions of public numbers: nothing here ever sees data. Every result is rounded to the safe
side, so that putting it back into the exact formula never exceeds the target.

    gaussian     the inverse of the Gaussian and concentrated curves
    gradients    how far one record moves the gradient of a regression
    regression   objective and output perturbation for ridge and logistic regression
    posterior    inverse temperatures of Gibbs posteriors
    masks        randomised response and masks for several slots
    counting     errors of continual counting, before any report is in
"""

from sudare.calibration.gaussian import concentrated_rho, gaussian_mu
from sudare.calibration.gradients import (
    logistic_gradient_bound,
    logistic_gradient_diameter,
    ridge_gradient_bound,
    ridge_gradient_diameter,
)
from sudare.calibration.regression import (
    ObjectiveNoise,
    logistic_objective,
    logistic_output_sensitivity,
    ridge_objective,
    ridge_output_sensitivity,
)

__all__ = [
    "ObjectiveNoise",
    "concentrated_rho",
    "gaussian_mu",
    "logistic_gradient_bound",
    "logistic_gradient_diameter",
    "logistic_objective",
    "logistic_output_sensitivity",
    "ridge_gradient_bound",
    "ridge_gradient_diameter",
    "ridge_objective",
    "ridge_output_sensitivity",
]
