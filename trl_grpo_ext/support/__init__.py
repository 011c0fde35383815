"""What every room may use: text, files, numbers. It knows nothing of rewards."""
