"""All that touches TRL: the trainer, its configuration, its callback, and what is known of TRL."""
