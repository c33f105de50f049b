"""Tasks over processes. What comes out does not depend on how many there are."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from multiprocessing import get_context
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from papers.figure import Figure, Results, Sample
from sudare.foundations import checks

Progress = Callable[[str, int, int], object]
Work = tuple[Figure, Sequence[Any]]
_Part = tuple[Callable[[Any], list[Sample]], Any]


def run(work: Sequence[Work], jobs: int, progress: Progress) -> Iterator[tuple[Figure, Results]]:
    """Each figure with its results, as soon as its last task is done, in the order given.

    `progress` hears the figure's title, how many of its tasks are done, and of how many.
    """
    checks.count(jobs=jobs)
    parts: list[_Part] = [(figure.measure, task) for figure, tasks in work for task in tasks]
    with ExitStack() as stack:
        answers: Iterator[list[Sample]]
        if jobs == 1 or len(parts) < 2:
            answers = map(_answer, parts)
        else:
            # Spawned, not forked: a fork would copy whatever threads the caller holds.
            pool = stack.enter_context(get_context("spawn").Pool(min(jobs, len(parts))))
            answers = pool.imap(_answer, parts)
        for figure, tasks in work:
            samples: list[Sample] = []
            for done in range(len(tasks)):
                samples += next(answers)
                progress(figure.title, done + 1, len(tasks))
            yield figure, Results(samples, figure.positive)


def _answer(part: _Part) -> list[Sample]:
    measure, task = part
    # One thread each: processes share the cores, and sums then have one order.
    with threadpool_limits(1):
        return measure(task)
