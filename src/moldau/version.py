"""◇ The version of this package, which clients tell brokers."""

from typing import Final

__version__: Final = "0.1.0"
