"""Imported by test kernels: waits longer for a page's hello, since a page may stall for a while.

No values from Python are requested there.
"""

from nbglcnn.widget import reader

reader.HELLO_TIMEOUT_S = 6.0
