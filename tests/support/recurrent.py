"""Graphs with state s ← 0.9 s + x and values computed from it, over maps, in sections."""

from dataclasses import replace

import numpy as np

from nbglcnn.graph import Carry, Graph, Node, Value, ValueKey

FLOAT32 = np.dtype(np.float32)
RANDOM = np.random.default_rng(17)
SHAPE = (2, 5, 6, 7)  # an odd number of channels, two images
INITIAL_STATE = RANDOM.standard_normal(SHAPE).astype(np.float32)
INPUTS = [RANDOM.standard_normal(SHAPE).astype(np.float32) for _ in range(4)]


def leaky_integrator(shape: tuple[int, ...] = SHAPE, initial: np.ndarray = INITIAL_STATE) -> Graph:
    """State s ← 0.9 s + x in section "forward"; y = tanh(s) + x in section "post"."""
    names = ("x", "scaled", "next", "squashed", "y", "s")
    values = {name: Value(name, shape, FLOAT32) for name in names}
    values["decay"] = Value("decay", (), FLOAT32, np.array(0.9, np.float32))
    values["s.initial"] = Value("s.initial", shape, FLOAT32, initial)
    nodes = (
        Node("n0", "Mul", ("s", "decay"), ("scaled",)),
        Node("n1", "Add", ("scaled", "x"), ("next",)),
        Node("n2", "Tanh", ("next",), ("squashed",), section="post"),
        Node("n3", "Add", ("squashed", "x"), ("y",), section="post"),
    )
    keys = (
        ValueKey("x", "x", "input"),
        *(ValueKey(name, name, "layer") for name in ("scaled", "next", "squashed")),
        ValueKey("y", "y", "output"),
    )
    return Graph(
        "leaky", nodes, values, ("x",), ("y",), keys, {"s": "s.initial"},
        carries=(Carry("next", "s", "s.initial"),),
    )  # fmt: skip


def with_delay_state(graph: Graph) -> Graph:
    """Add state p, the x of the previous step, whose source is an input; d = x − p."""
    values = dict(graph.values)
    values |= {name: Value(name, SHAPE, FLOAT32) for name in ("p", "d")}
    values["p.initial"] = Value("p.initial", SHAPE, FLOAT32, np.zeros(SHAPE, np.float32))
    return replace(
        graph,
        values=values,
        nodes=(*graph.nodes, Node("n4", "Sub", ("x", "p"), ("d",), section="post")),
        keys=(*graph.keys, ValueKey("d", "d", "output")),
        outputs=(*graph.outputs, "d"),
        parameters={**graph.parameters, "p": "p.initial"},
        carries=(*graph.carries, Carry("x", "p", "p.initial")),
    )


def numpy_step(x: np.ndarray, s: np.ndarray) -> dict[str, np.ndarray]:
    """Compute one run with NumPy from a state."""
    following = np.float32(0.9) * s + x
    return {"scaled": np.float32(0.9) * s, "next": following, "y": np.tanh(following) + x}


def pooled_sections() -> Graph:
    """A vector as maps, max-pooled in two sections, the second with the opposite sign."""
    shapes = {"x": (1, 80), "maps": (1, 5, 4, 4), **dict.fromkeys(("a", "most", "b"), (1, 5, 2, 2))}
    values = {name: Value(name, shape, FLOAT32) for name, shape in shapes.items()}
    maps = np.array(shapes["maps"])
    values["shape"] = Value("shape", (4,), maps.dtype, maps)
    window = {"kernel_shape": (2, 2), "strides": (2, 2)}
    nodes = (
        Node("n0", "Reshape", ("x", "shape"), ("maps",)),
        Node("n1", "MaxPool", ("maps",), ("a",), window),
        Node("n2", "MaxPool", ("maps",), ("most",), window, section="post"),
        Node("n3", "Neg", ("most",), ("b",), section="post"),
    )
    keys = (ValueKey("x", "x", "input"), ValueKey("a", "a", "output"), ValueKey("b", "b", "output"))
    return Graph("pooled", nodes, values, ("x",), ("a", "b"), keys, {})


def cross_section_graph() -> Graph:
    """A chain in "post" that starts at an unobserved value of "forward"."""
    names = ("x", "a", "b", "c", "d", "y")
    values = {name: Value(name, SHAPE, FLOAT32) for name in names}
    operators = ("Sin", "Neg", "Tanh", "Sigmoid", "Exp")
    nodes = [
        Node(f"n{k}", op, (names[k],), (names[k + 1],), section="post" if k else "forward")
        for k, op in enumerate(operators)
    ]
    keys = (ValueKey("x", "x", "input"), ValueKey("y", "y", "output"))
    return Graph("crossed", tuple(nodes), values, ("x",), ("y",), keys, {})


def cross_section_values(x: np.ndarray) -> np.ndarray:
    """Compute the output of `cross_section_graph` with NumPy."""
    return np.asarray(np.exp(1 / (1 + np.exp(-np.tanh(-np.sin(x))))))
