"""What the server of forked processes imports first: looking for garbage among a million objects takes a second."""

from __future__ import annotations

import gc
import os

gc.set_threshold(50_000, 20, 20)
# A forked process then looks for garbage only among the objects that it has made itself.
os.register_at_fork(before=gc.freeze)
