"""Why training waits: a loader measured, what limits it, and the same with a change."""

from fastload._doctor._doctor import doctor
from fastload._doctor._report import DoctorReport

__all__ = ["DoctorReport", "doctor"]
