"""◇ Clients cannot be pickled, as `multiprocessing`, Spark's closures and `copy` would do."""

from typing import NoReturn


class Unpicklable:
    """A client: its connections and its loop belong to one process."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        """Errors: TypeError."""
        raise TypeError(f"a {type(self).__name__} cannot be pickled or copied: make one in the process that uses it")
