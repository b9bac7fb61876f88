"""Speed and memory as ratios, side by side: ``make bench``."""
