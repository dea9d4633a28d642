"""Teaching: a linear head behind a frozen network, fitted to examples."""

from nbglcnn.features.teaching.head import Head, fit
from nbglcnn.features.teaching.lesson import Example, Lesson

__all__ = ["Example", "Head", "Lesson", "fit"]
