"""What a reward pays for, before a run is paid for: its parts, what it tells apart, and how it can be farmed."""

from covey.rewards.audit.audit import Audit, audit
from covey.rewards.audit.verdict import Verdict

__all__ = ["Audit", "Verdict", "audit"]
