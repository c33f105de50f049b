"""Exact draws from log-concave densities, and certified ones where exactness is out of reach.

Each sampler is a state made once (`radial_envelope`, `ball_envelope`) and pure functions of it. All
but the proximal sampler are exact: what they return has the target's law, up to floating point in
the accept step. The proximal sampler states its distance in total variation before it starts. How
long a draw took depends on the data: never publish it.

    radial     logistic loss with a Gaussian prior, also on a ball
    ball       a Gaussian restricted to a ball (ridge posteriors)
    simple     any smooth, strongly convex potential, in few dimensions
    proximal   the same in many dimensions, within a stated total variation
"""

from sudare.sampling.ball import BallEnvelope, ball_envelope, draw_ball
from sudare.sampling.generic import Potential, draw_proximal, draw_simple, proximal_steps
from sudare.sampling.logistic import (
    LogisticPosterior,
    RadialEnvelope,
    draw_radial,
    radial_envelope,
)

__all__ = [
    "BallEnvelope",
    "LogisticPosterior",
    "Potential",
    "RadialEnvelope",
    "ball_envelope",
    "draw_ball",
    "draw_proximal",
    "draw_radial",
    "draw_simple",
    "proximal_steps",
    "radial_envelope",
]
