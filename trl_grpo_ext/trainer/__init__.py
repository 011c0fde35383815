"""The code that touches TRL: trainer, configuration, callbacks, and the supported TRL versions."""
