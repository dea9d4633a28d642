"""`python -m nbglcnn`: the command line."""

import sys

from nbglcnn.cli import main

if __name__ == "__main__":
    sys.exit(main())
