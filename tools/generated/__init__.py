"""What `tools/generate.py` writes, one module for each kind of file."""
