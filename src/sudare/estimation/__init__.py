"""Estimation: what a consortium's noisy sums say about its people, with honest intervals.

Pure: arrays and releases in, numbers with intervals out. `sudare.site` reads the files and the
study, and draws the pages.
"""

__all__: list[str] = []
