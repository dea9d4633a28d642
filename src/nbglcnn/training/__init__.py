"""Training on local OpenGL: `nbglcnn.train`."""

from nbglcnn.training.local import train
from nbglcnn.training.optimizers import SGD, Adam, AdamW
from nbglcnn.training.result import Training

__all__ = ["SGD", "Adam", "AdamW", "Training", "train"]
