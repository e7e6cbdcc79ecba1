"""Index batches from torch's samplers, and the sampler that splits samples between ranks."""

from fastload.samplers._sharded_sampler import ShardedSampler

__all__ = ["ShardedSampler"]
