"""Measurements beside peers, in one run on one machine."""
