"""Judging programs by their tests: what was expected stays on this side, what ran says nothing about itself."""
