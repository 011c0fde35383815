"""What a run leaves on disk: written, read, thinned out."""
