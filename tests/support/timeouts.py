"""What a kernel of tests imports: a page that stands still for a while is not taken for none.

Values of Python's are not asked for there.
"""

from nbglcnn.widget import reader

reader.HELLO_TIMEOUT_S = 6.0
