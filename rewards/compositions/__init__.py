"""What verifiers made of verifiers have in common; used by `AllOf`, `AnyOf` and `FirstScored`."""
