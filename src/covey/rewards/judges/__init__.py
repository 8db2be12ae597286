"""What rewards that ask a language model share: the endpoint, its answers on disk, quoting, and reading verdicts."""
