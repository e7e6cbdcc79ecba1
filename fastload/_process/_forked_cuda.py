"""torch's error about CUDA in a process that was forked after CUDA was used."""

from __future__ import annotations

# torch.cuda._lazy_init().
FORKED_CUDA = "Cannot re-initialize CUDA in forked subprocess"
_MOST_CAUSES = 100


def is_of_forked_cuda(error: BaseException | None) -> bool:
    """Returns whether `error`, or an error that led to it, is torch's."""
    for _ in range(_MOST_CAUSES):
        if error is None:
            return False
        if type(error) is RuntimeError and FORKED_CUDA in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
