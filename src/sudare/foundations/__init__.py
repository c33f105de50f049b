"""What every guarantee stands on: validation, randomness, exact noise, curves, events and the seal.

Nothing here knows of studies, releases or surveys. Modules import only from those above them in
this list:

    checks, rounding      one vocabulary for bad input; rounding to the safe side
    exact, randomness     OpenDP's samplers; secure and seeded generators
    curves, composition   ε and δ of one release, and of several
    privacy               events, guarantees, their sentence
    gaussian, masks       from a target to its noise: Gaussian, concentrated, masks of bits
    mechanisms, seal      noise, choices, randomised bits; the last step of all that leaves
    sampling              exact draws from log-concave laws
"""
