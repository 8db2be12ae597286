"""Which metric holds the divergence from the reference in which unit."""

KL_METRICS = {"token": "kl/ref", "sequence": "kl/ref_sequence"}
