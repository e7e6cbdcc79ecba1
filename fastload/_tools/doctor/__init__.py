"""Why training waits: a loader measured, what limits it, and the same with a change."""

from fastload._tools.doctor._doctor import doctor
from fastload._tools.doctor._report import DoctorReport

__all__ = ["DoctorReport", "doctor"]
