"""Machines with NVIDIA GPUs, played back: `recorder.py` writes one down, `machine.py` builds its files and plays it.

`recordings/h200.json` is a real machine's; the others were composed by hand, and say so in `about`.
"""
