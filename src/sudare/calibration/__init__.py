"""From a target guarantee to a noise scale, an inverse temperature or a flip probability.

Pure functions of public numbers: nothing here ever sees data. Every result is rounded to the safe
side, so that putting it back into the exact formula never exceeds the target.

    gaussian            the inverse of the Gaussian and concentrated curves
    gradients           how far one record moves the gradient of a regression
    regression          objective and output perturbation for ridge and logistic regression
    posterior           inverse temperatures of Gibbs posteriors
    posterior_bounded   the same for losses that differ by a bounded amount: pure ε
    posterior_papers    what was printed about Gibbs posteriors, with warnings where it is false
    masks               randomised response and masks for several slots
    counting            errors of continual counting, before any report is in
"""

from sudare.calibration.counting import (
    dense_condition,
    dense_error_bound,
    dense_error_rate,
    error_bound,
    error_rate,
    flip_error_bound,
    harmony_error_quantile,
    harmony_error_quantile_rate,
    paper_dense_condition,
    paper_dense_error_bound,
    paper_dense_error_rate,
    paper_flip_error_bound,
    paper_harmony_error_quantile,
    paper_total_error_bound,
    reporters_exponent,
    sampling_error_bound,
    split_error_bound,
)
from sudare.calibration.gaussian import (
    concentrated_rho,
    gaussian_mu,
)
from sudare.calibration.gradients import (
    logistic_gradient_bound,
    logistic_gradient_diameter,
    ridge_gradient_bound,
    ridge_gradient_diameter,
)
from sudare.calibration.masks import (
    MAX_SLOTS,
    MaskLaw,
    best_mask_law,
    estimate_variance,
    flip_probability,
    flip_threshold,
    mask_law,
    truth_probability,
)
from sudare.calibration.posterior import (
    deviation_tail,
    inverse_temperature,
    normal_mean_inverse_temperature,
    normal_mean_variance,
    posterior_divergence,
    posterior_mu,
    posterior_tail,
    tail_budget,
    tail_inverse_temperature,
    total_variation_slack,
)
from sudare.calibration.posterior_bounded import (
    exponential_epsilon,
    exponential_inverse_temperature,
    likelihood_difference_range,
    lipschitz_difference_range,
)
from sudare.calibration.posterior_papers import (
    PrivacyWarning,
    paper_bounded_likelihood_epsilon,
    paper_corollary10_delta,
    paper_corollary10_inverse_temperature,
    paper_corollary10_limit,
    paper_corollary10_true_delta,
    paper_exponential_inverse_temperature,
    paper_lipschitz_likelihood_epsilon,
    paper_logistic_inverse_temperature,
    paper_normal_mean_discriminant,
    paper_normal_mean_inverse_temperature,
    paper_theorem9_divergence,
)
from sudare.calibration.regression import (
    ObjectiveNoise,
    logistic_objective,
    logistic_output_sensitivity,
    ridge_objective,
    ridge_output_sensitivity,
)

__all__ = [
    "MAX_SLOTS",
    "MaskLaw",
    "ObjectiveNoise",
    "PrivacyWarning",
    "best_mask_law",
    "concentrated_rho",
    "dense_condition",
    "dense_error_bound",
    "dense_error_rate",
    "deviation_tail",
    "error_bound",
    "error_rate",
    "estimate_variance",
    "exponential_epsilon",
    "exponential_inverse_temperature",
    "flip_error_bound",
    "flip_probability",
    "flip_threshold",
    "gaussian_mu",
    "harmony_error_quantile",
    "harmony_error_quantile_rate",
    "inverse_temperature",
    "likelihood_difference_range",
    "lipschitz_difference_range",
    "logistic_gradient_bound",
    "logistic_gradient_diameter",
    "logistic_objective",
    "logistic_output_sensitivity",
    "mask_law",
    "normal_mean_inverse_temperature",
    "normal_mean_variance",
    "paper_bounded_likelihood_epsilon",
    "paper_corollary10_delta",
    "paper_corollary10_inverse_temperature",
    "paper_corollary10_limit",
    "paper_corollary10_true_delta",
    "paper_dense_condition",
    "paper_dense_error_bound",
    "paper_dense_error_rate",
    "paper_exponential_inverse_temperature",
    "paper_flip_error_bound",
    "paper_harmony_error_quantile",
    "paper_lipschitz_likelihood_epsilon",
    "paper_logistic_inverse_temperature",
    "paper_normal_mean_discriminant",
    "paper_normal_mean_inverse_temperature",
    "paper_theorem9_divergence",
    "paper_total_error_bound",
    "posterior_divergence",
    "posterior_mu",
    "posterior_tail",
    "reporters_exponent",
    "ridge_gradient_bound",
    "ridge_gradient_diameter",
    "ridge_objective",
    "ridge_output_sensitivity",
    "sampling_error_bound",
    "split_error_bound",
    "tail_budget",
    "tail_inverse_temperature",
    "total_variation_slack",
    "truth_probability",
]
