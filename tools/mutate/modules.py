"""Which tests know a module: those that mirror it, and those listed here."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRIVACY = (
    "foundations.gaussian",
    "foundations.masks",
    "foundations.mechanisms",
    "foundations.seal",
    "foundations.composition",
    "foundations.curves",
    "calibration.regression",
    "calibration.gradients",
    "calibration.posterior",
    "calibration.sessions",
    "calibration.shifts",
    "calibration.counting",
    "ledger.accounts",
    "ledger.book",
    "ledger.chain",
    "ledger.filters",
    "ledger.keys",
    "exchange.envelope",
    "exchange.keys",
    "exchange.places",
    "pooling.board",
    "pooling.descent",
    "pooling.estimate",
    "pooling.masks",
    "pooling.messages",
    "pooling.party",
    "pooling.plan",
    "pooling.poisson",
    "pooling.pooled",
    "pooling.sessions",
    "pooling.shares",
    "pooling.sums",
    "blending.pooled",
    "blending.explain",
    "blending.hedged",
    "blending.candidates",
    "blending.matching",
    "blending.groups",
    "blending.own",
    "blending.received",
    "collector.engine",
    "counting.estimation",
    "estimation.alike",
    "estimation.coefficients",
    "estimation.description",
    "estimation.forms",
    "estimation.models",
    "estimation.propagation",
    "estimation.sites",
    "estimation.solving",
    "estimation.structure",
    "estimation.summaries",
    "estimation.variables",
)
"""What decides privacy, or what a blend says of itself: the default."""

_PINNED = "blending/test_hedged_pinned.py"
BESIDE = {
    "blending.candidates": (_PINNED, "blending/test_hedged.py"),
    "blending.matching": (_PINNED, "blending/test_own.py"),
    "blending.groups": (_PINNED, "blending/test_candidates.py"),
    "blending.own": (_PINNED, "blending/test_hedged_hostile.py"),
    "blending.received": (_PINNED,),
    "calibration.shifts": ("calibration/test_regression.py",),
    "counting.estimation": ("counting/test_live.py",),
    "foundations.gaussian": ("foundations/test_composition_near.py",),
    "ledger.accounts": ("ledger/test_book.py",),
    "ledger.book": ("ledger/test_chain.py", "ledger/test_databases.py"),
    "ledger.chain": ("ledger/test_book.py",),
    "ledger.keys": ("ledger/test_chain.py",),
    "estimation.coefficients": ("estimation/test_models.py",),
    "estimation.structure": ("estimation/test_models.py",),
    "estimation.forms": ("estimation/test_summaries.py",),
    "estimation.propagation": ("estimation/test_summaries.py",),
    "estimation.variables": ("estimation/test_summaries.py",),
    "pooling.board": ("pooling/test_descent.py", "pooling/test_estimate.py"),
    "pooling.estimate": ("pooling/test_board.py",),
    "pooling.sessions": ("pooling/test_descent.py", "pooling/test_sums.py"),
    "pooling.shares": ("pooling/test_sessions.py",),
    "pooling.sums": ("pooling/test_descent.py",),
}
"""Tests beside the mirrors, below tests/."""


def source_of(root: Path, module: str) -> Path:
    """The file of a module, named from the package on; private ones without their underscore."""
    path = root / "src" / "sudare" / Path(*module.split(".")).with_suffix(".py")
    private = path.with_name(f"_{path.name}")
    return private if private.exists() else path


def files_testing(root: Path, module: str) -> list[Path]:
    """src/sudare/x/_y.py is tested by tests/x/test_y.py and tests/x/test_y_*.py."""
    *rooms, name = module.split(".")
    folder = root / "tests" / Path(*rooms)
    mirrors = [folder / f"test_{name}.py", *sorted(folder.glob(f"test_{name}_*.py"))]
    beside = [root / "tests" / path for path in BESIDE.get(module, ())]
    return [path for path in dict.fromkeys([*mirrors, *beside]) if path.exists()]
