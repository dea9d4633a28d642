"""Every layer of a convolutional network, live on the GPU of a notebook and back in numpy."""

__version__ = "0.1.0"
