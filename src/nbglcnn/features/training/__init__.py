"""Training on local OpenGL: `nbglcnn.train`."""

from nbglcnn.features.training.local_training import train
from nbglcnn.features.training.optimizers import SGD, Adam, AdamW
from nbglcnn.features.training.result import Training

__all__ = ["SGD", "Adam", "AdamW", "Training", "train"]
