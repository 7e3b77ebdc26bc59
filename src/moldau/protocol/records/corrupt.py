"""◇ The one error that bytes of records can end in, whatever is wrong with them."""


class CorruptBatch(Exception):
    """These bytes are not what the format says: torn, lying about a length or a count, or expanding beyond the limit given."""


class ExpandsTooFar(CorruptBatch):
    """Decompressed, there is more than the limit given."""


class UnsupportedMagic(CorruptBatch):
    """A message set of magic 0 or 1, which brokers since 4.0 no longer take, or a magic from the future."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"magic {magic}: only record batches of magic 2 are supported")
        self.magic = magic
