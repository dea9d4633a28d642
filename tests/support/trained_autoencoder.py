"""The trained autoencoder's Plan for a few pictures, and its values in PyTorch."""

from functools import cache

import numpy as np
import torch

import nbglcnn
from fashion_autoencoder import load_autoencoder, load_images
from nbglcnn import Plan


@cache
def compile_autoencoder() -> tuple[Plan, np.ndarray, dict[str, np.ndarray]]:
    """The trained autoencoder's Plan for three pictures, and each layer's values in PyTorch."""
    model, images = load_autoencoder(), load_images()[0][:3]
    values: dict[str, np.ndarray] = {}
    for name, module in model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(
                lambda _module, _input, output, name=name: values.update({name: output.numpy()})
            )
    with torch.inference_mode():
        model(torch.from_numpy(images))
    return nbglcnn.compile(model, images), images, values
