"""Running programs that nobody has read: without harm to the machine, and without a way to forge a verdict."""
