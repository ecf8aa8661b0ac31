"""What users see and keep of a run: output files, written as a whole or not at all, and the progress line."""
