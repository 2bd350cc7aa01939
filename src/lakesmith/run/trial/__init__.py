"""Tables are tried out: on rows that a test gives, and on no rows at all."""

from lakesmith.run.trial.empty import try_empty
from lakesmith.run.trial.trials import try_tests

__all__ = ["try_empty", "try_tests"]
