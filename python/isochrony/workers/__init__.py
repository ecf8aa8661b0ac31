"""Worker processes that call Python functions: their program, and how functions and exceptions travel."""
