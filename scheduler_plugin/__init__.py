"""Freshet: decides, every tick, which table loads and view refreshes to run."""

__version__ = "0.1.0"
