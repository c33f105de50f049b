"""Formulas of the papers that sudare itself has no use for: put right, and as printed.

Functions named `paper_…` give what a paper prints, to compare with: not for releases, and those
about Gibbs posteriors give a `PrivacyWarning` where they are false. The others are the paper's
statements as they can be proved. What to release with is in `sudare.calibration`.

    posterior   tail guarantees and temperatures of Gibbs posteriors
    bounded     Gibbs posteriors of losses that differ by a bounded amount: pure ε
    counting    two-term errors of Glance, quantiles of Harmony, and their rates
    risk        the risk of a blend of private learners
"""
