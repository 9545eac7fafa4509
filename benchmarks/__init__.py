"""What sendoff reaches beside the same SQL issued raw: ``python -m benchmarks``, or ``make bench``.

Benchmarks, not tests: a slow machine makes small numbers and no failure. Only the ratios within one run mean anything.
"""
