"""The worker's own state, as a fork would give it: generators, objects, globals, directory."""
