"""Transform pipelines as native steps, and the rest that Python runs."""

from fastload.transforms._multi_view import MultiView

__all__ = ["MultiView"]
