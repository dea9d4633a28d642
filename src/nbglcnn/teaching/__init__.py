"""Teaching: a linear head behind a frozen network, of examples that somebody collects."""

from nbglcnn.teaching.head import Head, fit
from nbglcnn.teaching.lesson import Example, Lesson

__all__ = ["Example", "Head", "Lesson", "fit"]
