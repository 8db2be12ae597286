"""Seeds that depend on what is sampled, not on when or beside whom."""

from __future__ import annotations

import hashlib


def derive_seed(*parts: int | str) -> int:
    """A 64-bit seed from any identifying parts, e.g. run seed, step, prompt uid, sample. Stable across machines."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
