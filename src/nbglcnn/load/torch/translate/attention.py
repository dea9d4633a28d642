"""scaled_dot_product_attention in ONNX: scales the product of q and k, as PyTorch does.

onnxscript scales q and k each by the square root of the factor. Its rounding makes equal scores
differ; for large scores the softmax shows the difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention for torch.onnx.export, in the layout (examples, heads, tokens, features)."""
    import onnx_ir as ir
    from onnxscript import opset18

    op: Any = opset18
    _, heads, tokens, features = query.shape
    _, own_heads, keys, _ = key.shape

    def repeated(x: Any) -> Any:
        """Repeat each key or value head for its group of query heads."""
        examples, _, *rest = x.shape
        apart = op.Constant(value_ints=[examples, own_heads, heads // own_heads, *rest])
        joined = op.Constant(value_ints=[examples, heads, *rest])
        return op.Reshape(op.Expand(op.Unsqueeze(x, op.Constant(value_ints=[2])), apart), joined)

    if enable_gqa and heads != own_heads:
        key, value = repeated(key), repeated(value)
    scores = op.MatMul(query, op.Transpose(key, perm=[0, 1, 3, 2]))
    factor = op.Constant(value_float=features**-0.5 if scale is None else scale)
    scores = op.Mul(scores, op.CastLike(factor, query))
    chosen = attn_mask is not None and attn_mask.dtype == ir.DataType.BOOL
    if is_causal:
        later = np.triu(np.full((tokens, keys), np.finfo(np.float32).min, np.float32), 1)
        attn_mask = op.CastLike(op.Constant(value=ir.tensor(later)), query)
    elif chosen:
        never = op.CastLike(op.Constant(value_float=-np.inf), query)
        attn_mask = op.Where(attn_mask, op.CastLike(op.Constant(value_float=0.0), query), never)
    if attn_mask is not None:
        scores = op.Add(scores, attn_mask)
    weights = op.Softmax(scores, axis=-1)
    if attn_mask is not None and not is_causal:  # zeros for a token that may attend to no key
        nothing = op.CastLike(op.Constant(value_float=0.0), query)
        never = op.CastLike(op.Constant(value_float=-np.inf), query)
        most = op.ReduceMax(scores, op.Constant(value_ints=[-1]), keepdims=1)
        weights = op.Where(op.Equal(most, never), nothing, weights)
    if dropout_p:
        weights, _ = op.Dropout(weights, op.Constant(value_float=dropout_p))
    return op.MatMul(weights, value)
