"""``python -m covey.cli`` is ``covey``."""

import sys

from covey.cli.main import main

sys.exit(main())
