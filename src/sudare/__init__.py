"""sudare: learn and count together without anyone seeing anyone's data."""

__version__ = "0.1.0"
