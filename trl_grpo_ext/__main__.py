"""Run the command line as `python -m trl_grpo_ext` or `accelerate launch -m trl_grpo_ext`."""

import sys

from trl_grpo_ext.cli.main import main

sys.exit(main())
