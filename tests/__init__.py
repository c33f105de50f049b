"""The tests mirror src/sudare."""
