"""Tables: named columns of equal length, in memory, as text, as Arrow, and in files."""
