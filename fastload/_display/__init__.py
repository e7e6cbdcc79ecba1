"""How objects show themselves: tables as text and as HTML, and numbers with their units."""
