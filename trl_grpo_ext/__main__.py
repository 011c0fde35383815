"""`python -m trl_grpo_ext`, which is also what `accelerate launch -m trl_grpo_ext` runs."""

import sys

from trl_grpo_ext.cli.main import main

sys.exit(main())
