"""Puts the modules that tests share on the path: with import mode importlib pytest does not."""

import pathlib
import sys

FOLDER = str(pathlib.Path(__file__).parent)
if FOLDER not in sys.path:
    sys.path.append(FOLDER)
