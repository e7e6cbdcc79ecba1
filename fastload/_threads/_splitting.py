"""Whether the samples of a batch are loaded by several threads at once."""

from __future__ import annotations


class Splitting:
    """What a loader knows of that; kept between its epochs.

    Splitting brings the first batch sooner, and a slow sample holds up one thread instead of a batch. Samples that draw
    from a worker's generator need its order, so batches of such a dataset are made by one thread each. Which it is
    shows in the first sample of the first epoch: it is loaded before all others. Should a later one draw after all, it
    waits for its turn, and batches asked for from then on are made by one thread each.

    Args:
        is_possible: False: batches are made by one thread each whatever the samples do.
    """

    def __init__(self, *, is_possible: bool) -> None:
        self.is_possible = is_possible
        self.is_known = not is_possible

    def forbid(self) -> None:
        self.is_possible = False
