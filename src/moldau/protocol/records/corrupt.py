"""◇ The one error for broken bytes of records, whatever is wrong with them."""


class CorruptBatch(Exception):
    """The bytes contradict the format: they are torn, a length or a count is wrong, or they expand beyond the limit given."""


class ExpandsTooFar(CorruptBatch):
    """The decompressed data has more bytes than the limit given."""


class UnsupportedMagic(CorruptBatch):
    """A message set of magic 0 or 1, which brokers since 4.0 no longer take, or a magic from the future."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"magic {magic}: only record batches of magic 2 are supported")
        self.magic = magic
