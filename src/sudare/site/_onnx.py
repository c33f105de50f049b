"""A model as an ONNX graph, from raw columns in the study's units to predictions.

Numbers come in as doubles, NaN where they are missing; categories and classes as texts. Each input
has one column of the study, of shape (rows, 1). A value that the study does not allow (an unknown
label, an infinite number, a gap without a stand-in) makes its row's prediction NaN, and its class
an empty text: a graph cannot refuse one row.
"""

from typing import Any

import msgspec
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from sudare.foundations import checks
from sudare.releases import Label
from sudare.site._evaluation import KEEP_INSIDE
from sudare.site._model import Model
from sudare.study import GAPS, Categories, Feature, Number, label_text

Array = NDArray[np.float64]
_OPSET, _ML_OPSET, _IR = 17, 2, 8
"""Of 2022: what runs models today reads them."""
_LARGEST = float(np.finfo(np.float64).max)
PREDICTION, PROBABILITY = "prediction", "probability"


def to_onnx(model: Model) -> bytes:
    """The graph as the bytes of an .onnx file."""
    study = model.study
    taken = {PREDICTION, PROBABILITY} & study.columns.keys()
    if taken:
        raise checks.InvalidInput(
            f"A column is called {min(taken)!r}, as one of the graph's outputs: export as csv"
        )
    graph = _Graph(set(study.columns))
    encoded = graph.node("Concat", *_columns(graph, model), axis=1)
    # 0 for a row that has all its values, NaN for one that does not: clipping may lose a NaN.
    lacking = graph.sum(graph.node("Mul", encoded, graph.constant(0.0)))
    scores = _scores(graph, model, encoded)
    weights = graph.constant(np.array([[each.weight] for each in model.components]))
    outputs = []
    if study.target.classes is None:
        bounded = graph.clip(scores, -1.0, 1.0)
        mixed = graph.node("MatMul", bounded, weights)
        scaled = graph.node("Mul", mixed, graph.constant(study.target_reach))
        shifted = graph.node("Add", scaled, graph.constant(study.target_middle))
        graph.node("Add", shifted, lacking, to=PREDICTION)
        outputs.append(helper.make_tensor_value_info(PREDICTION, TensorProto.DOUBLE, [None, 1]))
    else:
        mixed = graph.node("MatMul", graph.node("Sigmoid", scores), weights)
        chance = graph.node("Add", mixed, lacking, to=PROBABILITY)
        first, second = (graph.texts([label_text(each)]) for each in study.target.classes)
        called = graph.node(
            "Where", graph.node("Greater", chance, graph.constant(0.5)), second, first
        )
        unknown = graph.node("IsNaN", chance)
        graph.node("Where", unknown, graph.texts([""]), called, to=PREDICTION)
        outputs.append(helper.make_tensor_value_info(PREDICTION, TensorProto.STRING, [None, 1]))
        outputs.append(helper.make_tensor_value_info(PROBABILITY, TensorProto.DOUBLE, [None, 1]))
    inputs = [
        helper.make_tensor_value_info(
            name,
            TensorProto.DOUBLE if isinstance(column, Number) else TensorProto.STRING,
            [None, 1],
        )
        for name, column in study.columns.items()
    ]
    made = helper.make_model(
        helper.make_graph(graph.nodes, "sudare", inputs, outputs, graph.constants),
        opset_imports=[
            helper.make_opsetid("", _OPSET),
            helper.make_opsetid("ai.onnx.ml", _ML_OPSET),
        ],
        ir_version=_IR,
        producer_name=model.software,
        doc_string=f"{study.name}: {KEEP_INSIDE}",
    )
    told = {"study": study.name, "digest": study.digest(), "party": model.party}
    helper.set_model_props(made, told | {"note": KEEP_INSIDE})
    onnx.checker.check_model(made)
    content: bytes = made.SerializeToString(deterministic=True)
    return content


class _Graph:
    """Collects nodes and constants, under names that no column has."""

    def __init__(self, taken: set[str]) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._taken, self._count = taken, 0

    def name(self) -> str:
        self._count += 1
        name = f"step {self._count}"
        return self.name() if name in self._taken else name

    def node(self, kind: str, *inputs: str, to: str = "", domain: str = "", **settings: Any) -> str:
        name = to or self.name()
        self.nodes.append(helper.make_node(kind, inputs, [name], domain=domain, **settings))
        return name

    def constant(self, value: float | Array | NDArray[np.int64]) -> str:
        name = self.name()
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def texts(self, values: list[str]) -> str:
        name = self.name()
        self.constants.append(numpy_helper.from_array(np.array(values, dtype=object), name))
        return name

    def clip(self, values: str, low: float, high: float) -> str:
        return self.node("Clip", values, self.constant(low), self.constant(high))

    def sum(self, values: str) -> str:
        """Of each row."""
        return self.node("ReduceSum", values, self.constant(np.array([1])), keepdims=1)


def _columns(graph: _Graph, model: Model) -> list[str]:
    """Encoded features, block by block in the study's order."""
    found = []
    for name, column in model.study.columns.items():
        features = [each for each in model.study.features if each.column == name]
        if isinstance(column, Number):
            found.append(_number(graph, name, column, features))
        else:
            found.append(_category(graph, name, column, features))
    return found


def _number(graph: _Graph, name: str, column: Number, features: list[Feature]) -> str:
    gap = graph.node("IsNaN", name)
    endless = graph.node("Greater", graph.node("Abs", name), graph.constant(_LARGEST))
    nothing = graph.constant(np.nan)
    stand_in = nothing if column.missing is None else graph.constant(float(column.missing))
    clipped = graph.clip(name, float(column.low), float(column.high))
    values = graph.node("Where", gap, stand_in, graph.node("Where", endless, nothing, clipped))
    if column.indicator:
        flags = graph.node("Where", gap, graph.constant(1.0), graph.constant(0.0))
        values = graph.node("Concat", values, flags, axis=1)
    return _scaled(graph, values, features)


def _category(graph: _Graph, name: str, column: Categories, features: list[Feature]) -> str:
    """A row of a table for each label; one for a gap, and one of NaN for what is not known."""
    labels, many = column.categories, len(column.categories)
    table = np.full((many + 2, len(features)), np.nan)
    table[:many] = np.eye(many, len(features) + 1)[:, 1:]
    if column.missing is not None:
        place = [label_text(each) for each in labels].index(label_text(column.missing))
        table[many] = table[place]
        table[many, many - 1 :] = 1.0  # the indicator, if there is one
    keys = dict.fromkeys(GAPS, many)
    for code, label in reversed(list(enumerate(labels))):
        keys |= dict.fromkeys(_spellings(label), code)
    codes = graph.node(
        "LabelEncoder",
        name,
        domain="ai.onnx.ml",
        keys_strings=list(keys),
        values_int64s=list(keys.values()),
        default_int64=many + 1 if column.other is msgspec.UNSET else keys[label_text(column.other)],
    )
    flat = graph.node("Reshape", codes, graph.constant(np.array([-1])))
    return _scaled(graph, graph.node("Gather", graph.constant(table), flat, axis=0), features)


def _spellings(label: Label) -> list[str]:
    """How a table may write it: as the study does, or as libraries write numbers and truth."""
    text = label_text(label)
    if text in ("true", "false"):
        return [text, text.capitalize(), text.upper()]
    return (
        [text, f"{text}.0"] if text.lstrip("-").isdecimal() and text == str(int(text)) else [text]
    )


def _scaled(graph: _Graph, values: str, features: list[Feature]) -> str:
    centres = graph.constant(np.array([[each.centre for each in features]]))
    scales = graph.constant(np.array([[each.scale for each in features]]))
    return graph.node("Div", graph.node("Sub", values, centres), scales)


def _scores(graph: _Graph, model: Model, encoded: str) -> str:
    """θ·x of every component, rows shortened as the study says."""
    study, contract = model.study, model.study.contract
    theta = np.array([each.coefficients for each in model.components]).T
    if study.may_shorten:
        squares = graph.sum(graph.node("Mul", encoded, encoded))
        norm = graph.constant(study.privacy.row_norm)
        longer = graph.node("Max", graph.node("Sqrt", squares), norm)
        encoded = graph.node("Mul", encoded, graph.node("Div", norm, longer))
    # Not the mark of incomplete rows: a row that has a prediction is complete.
    real = [place for place, each in enumerate(study.features) if each.column]
    scores = graph.node("MatMul", encoded, graph.constant(theta[real]))
    if contract.constant > 0:
        levels = contract.constant * theta[-1:]
        scores = graph.node("Add", scores, graph.constant(levels))
    return scores
