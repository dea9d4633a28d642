"""Teaching: fitting a linear head on a frozen network's features to examples."""

from nbglcnn.features.teaching.head import Head, fit
from nbglcnn.features.teaching.lesson import Example, Lesson

__all__ = ["Example", "Head", "Lesson", "fit"]
