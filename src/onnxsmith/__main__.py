"""`python -m onnxsmith`."""

import sys

from onnxsmith.cli import main

sys.exit(main())
