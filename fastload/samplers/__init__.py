"""Index batches from torch's samplers, and a sampler for process groups."""

from fastload.samplers._sharded_sampler import ShardedSampler

__all__ = ["ShardedSampler"]
