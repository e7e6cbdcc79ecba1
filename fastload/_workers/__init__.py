"""Everything a worker has for itself, as a fork would give it: generators, objects, globals, directory."""
