"""The worker's own state, as a fork would give it: generators, settings of torch, directory."""
