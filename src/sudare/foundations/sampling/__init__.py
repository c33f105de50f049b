"""Exact draws from log-concave densities, and certified ones where exactness is out of reach.

Each sampler is a state made once (`radial_envelope`, `ball_envelope`) and pure functions of it. All
but the proximal samplers are exact: what they return has the target's law, up to floating point in
the accept step. The proximal ones state their distance in total variation before they start. How
long a draw took depends on the data: never publish it.

    radial     logistic loss with a Gaussian prior, also on a ball
    ball       a Gaussian restricted to a ball (ridge posteriors)
    simple     any smooth, strongly convex potential, in few dimensions
    proximal   the same in many dimensions, within a stated total variation
    certified  logistic loss on a ball: exact, or within a stated total variation in a stated number
               of steps, with all that floating point can do to it
"""

from sudare.foundations.sampling.ball import BallEnvelope, ball_envelope, draw_ball
from sudare.foundations.sampling.centre import Settled, settle
from sudare.foundations.sampling.certified import (
    DrawCertificate,
    certify_ball,
    certify_logistic,
    draw_certified,
)
from sudare.foundations.sampling.generic import (
    Potential,
    draw_proximal,
    draw_simple,
    proximal_steps,
)
from sudare.foundations.sampling.logistic import (
    LogisticPosterior,
    RadialEnvelope,
    draw_radial,
    radial_envelope,
)
from sudare.foundations.sampling.shared import Draws

__all__ = [
    "BallEnvelope",
    "DrawCertificate",
    "Draws",
    "LogisticPosterior",
    "Potential",
    "RadialEnvelope",
    "Settled",
    "ball_envelope",
    "certify_ball",
    "certify_logistic",
    "draw_ball",
    "draw_certified",
    "draw_proximal",
    "draw_radial",
    "draw_simple",
    "proximal_steps",
    "radial_envelope",
    "settle",
]
