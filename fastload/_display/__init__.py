"""Tables as text and HTML, numbers with units, progress lines, and the counters that stats() shows."""
