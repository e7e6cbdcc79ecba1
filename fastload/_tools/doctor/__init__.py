"""The reason why training waits: measures a loader, finds its limit, tries a change and measures again."""

from fastload._tools.doctor._doctor import DoctorReport, doctor

__all__ = ["DoctorReport", "doctor"]
