"""What a run leaves behind and says of itself."""
