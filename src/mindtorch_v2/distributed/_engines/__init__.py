"""Engines: what moves tensors between the processes of a group. One module for each; they are loaded when used."""
