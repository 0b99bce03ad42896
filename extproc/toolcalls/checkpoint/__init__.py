"""Formats that come with a checkpoint: its response template, compiled into a table."""
