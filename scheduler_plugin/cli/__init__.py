"""The command line. `main.py` holds the table of commands; each command is one module, imported only when asked for."""
