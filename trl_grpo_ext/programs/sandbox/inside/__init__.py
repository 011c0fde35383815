"""Code that runs behind the walls: standard library, `sandbox.walls` and `workers.frames` are its only imports."""
