# The extension module (csrc/bindings). Only fastload/_native.py imports it.

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Literal, TypeAlias, TypedDict, overload

import numpy as np
from numpy.typing import NDArray
from torch import Generator
from typing_extensions import dataclass_transform

# module.cpp
version: str
compiler: str
cxx_standard: int

def available_kernel_tables() -> str: ...
def active_kernel_table() -> str: ...
def gil_wait_seconds() -> float: ...

# bind_device.cpp
class DeviceBackend:
    def stay_in_thread(self) -> None: ...

def open_cuda_device(runtime_major: int, device: int) -> DeviceBackend: ...

# A failed call of the device's runtime.
class DeviceFailure(TypedDict):
    error: int
    name: str
    text: str
    call: str

class StagingSlot:
    @property
    def address(self) -> int: ...

class StagingRing:
    def __init__(
        self, backend: DeviceBackend, *, address: int, slot_bytes: int, num_slots: int, owner: object
    ) -> None: ...
    def take(self) -> StagingSlot | DeviceFailure | None: ...

def sweep_staging_rings() -> None: ...

class BatchCopy:
    def __init__(self, slot: StagingSlot, parts: Sequence[tuple[int, int]], stream: int) -> None: ...
    def set_destinations(self, addresses: Sequence[int]) -> None: ...
    def set_written(self) -> None: ...
    @property
    def failure(self) -> DeviceFailure | None: ...

# bind_draws.cpp
class UniformRule:
    def __init__(self, *, is_fused: bool, excludes_to: bool) -> None: ...
    @property
    def is_fused(self) -> bool: ...
    @property
    def excludes_to(self) -> bool: ...

class TorchExp:
    def __init__(self, low: float, high: float, rule: UniformRule, corrections: bytes = b"") -> None: ...
    def __len__(self) -> int: ...
    def inputs(self, first: int, count: int) -> NDArray[np.float32]: ...
    def add(self, first: int, values: NDArray[np.float32]) -> bool: ...
    def value(self, draw: int) -> float: ...
    @property
    def corrections(self) -> bytes: ...

class DrawSource:
    def below(self, n: int) -> int: ...
    @overload
    def uniform(self) -> float: ...
    @overload
    def uniform(self, low: float, high: float) -> float: ...
    def permutation(self, n: int) -> list[int]: ...

class CounterDraws(DrawSource):
    def __init__(self, seed: int, epoch: int, sample_index: int, draw_number: int = 0) -> None: ...

def weighted_draws(seed: int, epoch: int, first: int, stride: int, count: int) -> NDArray[np.float64]: ...

class TorchDraws(DrawSource):
    def __init__(self, seed: int, rule: UniformRule) -> None: ...
    def load(self, state: NDArray[np.uint8]) -> None: ...
    def store(self, state: NDArray[np.uint8]) -> None: ...
    def text(self) -> str: ...
    def unpack(self, packed: bytes) -> None: ...

class TorchGaussian:
    def __init__(self, low: float, high: float, corrections: bytes = b"") -> None: ...
    def __len__(self) -> int: ...
    def inputs(self, first: int, count: int) -> NDArray[np.float32]: ...
    def add(self, first: int, values: NDArray[np.float32]) -> bool: ...
    def value(self, number: float) -> float: ...
    @property
    def corrections(self) -> bytes: ...

MAX_BLUR_SIZE: int

def gaussian_weights(
    blur: GaussianBlur, positions: Sequence[float], sigmas: NDArray[np.float32]
) -> NDArray[np.float32]: ...
def gaussian_sums(blur: GaussianBlur, sigma: float, planes: NDArray[np.uint8]) -> NDArray[np.float32]: ...
def has_fast_blur() -> bool: ...

# bind_steps.cpp. Steps and operations take their arguments by keyword; a ValueError names an invalid one.
# csrc/image/steps describes each of them.
MAX_BOX_RADIUS: float
MAX_IMAGE_SIDE: int
MAX_OPERATIONS: int

_Family: TypeAlias = Literal["v1", "v2"]

@dataclass_transform(kw_only_default=True, frozen_default=True)
class PixelOp: ...

@dataclass_transform(kw_only_default=True, frozen_default=True)
class Step:
    @property
    def is_random(self) -> bool: ...
    @property
    def max_operations(self) -> int: ...
    def size_after(self, size: tuple[int, int] | None) -> tuple[int, int] | None: ...
    def with_torch_exp(self, find: Callable[[float, float], TorchExp]) -> Step: ...

class Identity(PixelOp): ...

class Brightness(PixelOp):
    factor: float

class Contrast(PixelOp):
    factor: float

class Saturation(PixelOp):
    factor: float

class Sharpness(PixelOp):
    factor: float

class Hue(PixelOp):
    factor: float

class Posterize(PixelOp):
    bits: int

class Solarize(PixelOp):
    threshold: float

class PointTable(PixelOp):
    table: bytes

class Autocontrast(PixelOp): ...
class Equalize(PixelOp): ...
class Invert(PixelOp): ...
class Luma(PixelOp): ...
class Grayscale(PixelOp): ...

class BoxBlur(PixelOp):
    radius: Sequence[float]

class ThreeBoxBlurs(PixelOp):
    sigma: Sequence[float]

class Affine(PixelOp):
    matrix: Sequence[float]
    fill: Sequence[int]
    interpolation: str

class Rotate90(PixelOp): ...
class Rotate180(PixelOp): ...
class Rotate270(PixelOp): ...
class Transpose(PixelOp): ...
class Transverse(PixelOp): ...

class Resize(Step):
    height: int
    width: int
    interpolation: str

class BoxResize(Step):
    box: Sequence[float]
    height: int
    width: int
    interpolation: str

class ResizeShorterSide(Step):
    size: int
    max_size: int | None
    interpolation: str

class CenterCrop(Step):
    height: int
    width: int

class FixedCrop(Step):
    left: int
    top: int
    height: int
    width: int

class RandomResizedCrop(Step):
    height: int
    width: int
    scale: Sequence[float]
    ratio: Sequence[float]
    log_ratio: tuple[float, float]
    interpolation: str

class Pad(Step):
    left: int
    top: int
    right: int
    bottom: int
    padding_mode: str
    fill: Sequence[int]

class RandomCrop(Step):
    height: int
    width: int
    pad_if_needed: bool
    padding_mode: str
    fill: Sequence[int]
    family: _Family

class RandomHorizontalFlip(Step):
    probability: float | None

class RandomVerticalFlip(Step):
    probability: float | None

class RandomApply(Step):
    probability: float
    family: _Family
    steps: Sequence[tuple[int, Step]]

class ApplyOp(Step):
    op: PixelOp
    probability: float | None

class ColorJitter(Step):
    brightness: Sequence[float] | None
    contrast: Sequence[float] | None
    saturation: Sequence[float] | None
    hue: Sequence[float] | None

class RandomRotation(Step):
    degrees: Sequence[float]
    center: Sequence[float] | None
    fill: Sequence[int]
    interpolation: str

class RandomErasing(Step):
    probability: float
    scale: Sequence[float]
    ratio: Sequence[float]
    log_ratio: tuple[float, float]
    value: bytes

MAX_POLICY_OPS: int

class PolicyChoice:
    ops: Sequence[PixelOp]
    is_signed: bool
    num_bins: int
    probability: float
    def __init__(self, *, ops: Sequence[PixelOp], is_signed: bool, num_bins: int, probability: float) -> None: ...

class RandAugment(Step):
    num_ops: int
    choices: Sequence[PolicyChoice]
    family: _Family

class TrivialAugmentWide(Step):
    choices: Sequence[PolicyChoice]
    family: _Family

class AutoAugment(Step):
    policies: Sequence[Sequence[PolicyChoice]]
    family: _Family

class GaussianBlur(Step):
    sigma: Sequence[float]
    columns: Sequence[float]
    rows: Sequence[float]
    family: _Family
    sum_lanes: int
    torch_gaussian: TorchGaussian | None

class TransformPlan:
    def __init__(
        self,
        steps: Sequence[tuple[int, Step]],
        *,
        element_size: int = 1,
        channels_last: bool = True,
        table: bytes | None = None,
        resize_order: str,
        allow_variable_size: bool = False,
        bgr: bool = False,
        source_size: tuple[int, int] | None = None,
    ) -> None: ...
    @property
    def sample_bytes(self) -> int | None: ...
    @property
    def is_random(self) -> bool: ...
    def resolve(self, draws: DrawSource, width: int, height: int) -> list[tuple[Any, ...]]: ...

# bind_sources.cpp
class SampleIndex:
    def __init__(self, arena: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None: ...
    @staticmethod
    def joined(parts: Sequence[SampleIndex]) -> SampleIndex: ...
    def __len__(self) -> int: ...
    def path(self, sample_index: int) -> bytes: ...

class ListedIndex(SampleIndex):
    @staticmethod
    def of(samples: list[Any]) -> ListedIndex | None: ...
    def labels_of(self, sample_indices: NDArray[np.int64]) -> NDArray[np.int64]: ...

class FolderIndex(SampleIndex):
    def __init__(
        self,
        *,
        root: bytes,
        directories: NDArray[np.int64],
        starts: NDArray[np.int64],
        paths: NDArray[np.uint8],
        name_ends: NDArray[np.uint32],
        names: NDArray[np.uint8],
    ) -> None: ...
    def changed_directories(self, begin: int, end: int, distrusted: int) -> list[int]: ...

# csrc/io/working_directory.h
class WorkingDirectory:
    def __init__(self) -> None: ...
    def fileno(self) -> int: ...

def own_working_directory() -> bool: ...

# One directory: csrc/io/directory_scan.h.
class FolderListing(TypedDict):
    errno: int
    state: tuple[int, int, int]
    is_on_fuse: bool
    directories: list[tuple[bytes, bool]]
    names: bytes
    name_ends: NDArray[np.uint32]
    is_sorted: bool
    has_unresolved_link: bool

def list_directories(paths: Sequence[bytes], extensions: Sequence[bytes]) -> list[FolderListing]: ...
def is_on_fuse(fd: int) -> bool: ...

# bind_engine.cpp; one iteration and its batches: bind_iteration.cpp
class StatusFailure(TypedDict):
    stage: Literal["open", "read", "header", "decode", "limit", "transform", "engine"]
    errno: int
    offset: int
    text: str
    detail: str
    is_out_of_memory: bool
    exception: BaseException | None

class SampleFailure(StatusFailure):
    position: int
    path: bytes
    drawn_size: tuple[int, int] | None  # the image's, if the transform failed after it had drawn

class HostBuffer:
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def address(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

class BatchRows:
    def __init__(self, buffer: HostBuffer, num_rows: int) -> None: ...
    def is_held(self, row: int) -> bool: ...
    @property
    def num_held(self) -> int: ...

class BufferPool:
    def __init__(self, max_free_buffers: int) -> None: ...
    def allocate(self, nbytes: int) -> HostBuffer: ...
    @property
    def bytes_held(self) -> int: ...

# bind_messages.cpp
class MessageSocket:
    def __init__(self, descriptor: int) -> None: ...
    def put(self, message: bytes) -> None: ...
    def first(self) -> tuple[int, bytes] | None: ...
    def drop(self, number: int) -> bool: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    @property
    def descriptor(self) -> int: ...
    @property
    def has_unsent(self) -> bool: ...
    @property
    def has_ended(self) -> bool: ...

# Two that are connected. Raises OSError.
def new_sockets() -> tuple[MessageSocket, MessageSocket]: ...
def wait_for_message(sockets: list[MessageSocket], seconds: float) -> bool: ...

# One sample that the engine could not decode. Exactly one of complete() and fail() is called, once.
class FallbackTask:
    @property
    def path(self) -> bytes: ...
    @property
    def directory(self) -> int | None: ...
    @property
    def reason(self) -> str: ...
    def complete(self, pixels: bytes, width: int, height: int) -> None: ...
    def fail(self, exception: BaseException) -> None: ...

def next_when_ready(iterator: Any) -> Any:
    """Returns the next batch, as the ``__next__`` of a class: calls _prepare(), then takes the item of the list _ready.

    No signal handler runs between the two.
    """

class CallsAtDrop:
    """Calls each of `calls` when it is dropped, but not in a forked child. They must be C functions.

    Args:
        calls: Functions without arguments. They must neither wait nor lead to the object that keeps this one.
    """

    def __init__(self, calls: tuple[Callable[[], Any], ...]) -> None: ...

class Droppable:
    """Base of a class whose instances run Python code when they are dropped.

    Calls _when_dropped() then. If a signal handler raises there, calls it again, and raises the handler's exception in
    the main thread once the instance is gone.
    """

    def __del__(self) -> None: ...
    def _when_dropped(self) -> None:
        """Does what is to be done; a subclass has it. May be called again after an exception."""
    @staticmethod
    def _is_interrupt(error: BaseException) -> bool:
        """Returns whether a signal handler raised `error`; a subclass has it."""

class Batch:
    def take_owner(self) -> Any: ...
    @property
    def errors(self) -> list[SampleFailure]: ...
    @property
    def revived(self) -> list[int]: ...
    @property
    def is_whole(self) -> bool: ...
    def draws_before(self) -> TorchDraws | None: ...
    def draws_after(self) -> TorchDraws | None: ...
    def reports(self) -> list[tuple[bytes, str, tuple[int, int], list[list[tuple[Any, ...]]]]]: ...

_Submission: TypeAlias = tuple[
    NDArray[np.int64], Sequence[tuple[int, int]], object, BatchCopy | None, NDArray[np.uint32] | None
]

class Iteration:
    def submit(self, batch: _Submission, given: list[Any]) -> None: ...
    def owners_in_flight(self, count: int) -> list[Any]: ...
    def next(self, timeout_seconds: float) -> Batch | FallbackTask | str | None: ...
    def owners_after(self, batch: Batch) -> list[Any]: ...
    def restart(self, batch: Batch, again: list[_Submission]) -> None: ...
    def submit_again(
        self,
        batch: Batch,
        again: _Submission,
        lost_draws: Sequence[tuple[int, int, int]],
        later: list[_Submission],
        taken: Sequence[list[Any]],
    ) -> bool: ...
    def draws_untaken(self) -> list[TorchDraws]: ...
    def begin_epoch(self) -> None: ...
    def set_draws(self, draws: TorchDraws) -> None: ...
    def cancel(self) -> None: ...
    @property
    def is_forked(self) -> bool: ...
    @property
    def batches_in_flight(self) -> int: ...

class DecodeCache:
    def counters(self) -> dict[str, int]: ...
    def key_of(self, contents: bytes) -> tuple[int, int, int]: ...
    @property
    def is_worth_it(self) -> bool: ...

class StoreFileReport(TypedDict):
    name: str
    verdict: Literal["good", "foreign", "untrusted", "failed"]
    error: int
    has_writer: bool
    records: int
    live_records: int
    live_bytes: int
    dead_bytes: int
    file_bytes: int
    damaged: int

BuildOutcome = Literal["kept", "known", "not kept", "none", "too new", "absent", "different", "unread"]

class RecordBuilder:
    def build(self, path: bytes) -> BuildOutcome: ...
    def build_with_pixels(self, pixels: bytes, width: int, height: int) -> BuildOutcome: ...
    def compare(self, path: bytes) -> BuildOutcome: ...
    def compare_with_pixels(self, pixels: bytes, width: int, height: int) -> BuildOutcome: ...

def make_index_builder(cache: DecodeCache, max_file_bytes: int, max_pixels: int) -> RecordBuilder: ...
def make_file_record_builder(
    records: BuiltRecords,
    build: RecordBuild | None,
    first_steps: FirstSteps | None,
    max_file_bytes: int,
    max_pixels: int,
    native_jpeg: bool,
    clock_ahead_ns: int = 0,
) -> RecordBuilder: ...

class RecordStore:
    def run(self) -> None: ...
    def close(self) -> None: ...
    def close_after_fork(self) -> None: ...
    def begin_epoch(self) -> None: ...
    def end_epoch(self) -> None: ...
    def flush(self, timeout_seconds: float) -> bool: ...
    def counters(self) -> dict[str, int]: ...
    def make_decode_cache(self, expected_samples: int, files: FileRecordCache | None = None) -> DecodeCache: ...

class BuiltRecords:
    def is_current(self) -> bool: ...
    def counters(self) -> dict[str, int]: ...

class RecordBuild:
    def finish(self) -> None: ...
    @property
    def error(self) -> int: ...
    @property
    def num_records(self) -> int: ...

class FileRecordCache:
    def __init__(self, records: BuiltRecords, validation: Literal["stat", "content"], check_interval: int) -> None: ...
    def counters(self) -> dict[str, int]: ...
    def stop(self) -> None: ...
    @property
    def is_on(self) -> bool: ...
    @property
    def mismatched_path(self) -> bytes: ...

RecordKind = Literal["index", "coefficients", "pixels"]
STORE_KEY_BYTES: int

def open_record_store(folder: int, key: bytes, max_bytes: int, may_write: bool) -> RecordStore: ...
def open_built_records(folder: int, key: bytes, kind: RecordKind) -> BuiltRecords: ...
def begin_build(records: BuiltRecords, max_bytes: int) -> RecordBuild: ...
def report_records(folder: int, key: bytes, kind: RecordKind, reads_records: bool) -> list[StoreFileReport]: ...
def random_store_key() -> bytes: ...
def make_decode_cache(expected_samples: int) -> DecodeCache | None: ...
def set_index_memory(max_bytes: int) -> bool: ...
def index_memory() -> dict[str, int]: ...
def clear_index_memory() -> None: ...

class FirstSteps:
    def __init__(self, plan: TransformPlan, hash: bytes) -> None: ...

class Engine:
    def __init__(
        self,
        *,
        num_threads: int,
        max_free_buffers: int,
        max_file_bytes: int,
        max_pixels: int,
        native_jpeg: bool,
        cache: DecodeCache | None = None,
    ) -> None: ...
    def allocate(self, nbytes: int) -> HostBuffer: ...
    def open_iteration(
        self,
        index: SampleIndex,
        views: Sequence[TransformPlan],
        seed: int,
        epoch: int,
        draws: Sequence[TorchDraws] = (),
        first_lane: int = 0,
        directory: WorkingDirectory | None = None,
        first_steps: FirstSteps | None = None,
    ) -> Iteration: ...
    def next_fallback(self) -> FallbackTask | None: ...  # waits without the GIL; None once the engine is closed
    def close(self, timeout_seconds: float = 0.0) -> bool: ...
    def stats(self) -> dict[str, Any]: ...
    @property
    def is_forked(self) -> bool: ...
    @property
    def is_running(self) -> bool: ...

# bind_images.cpp
def exchange_item(items: dict[str, Any], key: str, before: object, after: object) -> bool: ...
def read_plain_header(attributes: dict[str, Any], contents: bytes) -> int | None: ...

# bind_generators.cpp
class ThreadGenerators:
    def __init__(self, random: Random, numpy: np.random.RandomState, torch: Generator) -> None: ...
    @property
    def random(self) -> Random: ...
    @property
    def numpy(self) -> np.random.RandomState: ...
    @property
    def torch(self) -> Generator: ...

def set_thread_generators(generators: ThreadGenerators | None) -> ThreadGenerators | None: ...
def thread_generators() -> ThreadGenerators | None: ...

class StandIn:
    def __init__(self, process_object: object, own: Literal["random", "numpy", "torch"]) -> None: ...

class MethodExchange:
    def __init__(self) -> None: ...
    def add_method(self, function: object, name: str, stand_in: StandIn) -> None: ...
    def add_function(self, function: object, name: str, replacement: Callable[..., Any]) -> None: ...
    def add_drawing(
        self,
        function: object,
        name: str,
        replacement: Callable[..., Any],
        tensor_type: type | None,
        count_modes: Callable[[], int],
    ) -> None: ...
    def add_attribute(self, descriptor: object, name: str, stand_in: StandIn) -> None: ...
    def make(self) -> None: ...
    def undo(self) -> None: ...

def call_original(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...
def make_gauss_next(type: type) -> object: ...

class SampleCounters(TypedDict):
    bytes_read: int
    stage_seconds: dict[str, float]

# A sequence of plans holds one for each EXIF orientation, 1 to 8.
class SampleDecoder:
    def __init__(
        self, *, max_file_bytes: int, max_pixels: int, native_jpeg: bool, cache: DecodeCache | None = None
    ) -> None: ...
    def run_file(
        self,
        path: bytes,
        plans: TransformPlan | Sequence[TransformPlan],
        draws: DrawSource,
        directory: WorkingDirectory | None = None,
        first_steps: FirstSteps | None = None,
    ) -> NDArray[np.uint8] | StatusFailure | None: ...
    def run_bytes(
        self,
        contents: bytes,
        plans: TransformPlan | Sequence[TransformPlan],
        draws: DrawSource,
        rows: BatchRows | None = None,
        row: int = 0,
        opened: bytes = b"",
    ) -> NDArray[np.uint8] | StatusFailure | None: ...
    def run_pixels(
        self,
        pixels: bytes | memoryview,
        width: int,
        height: int,
        plan: TransformPlan,
        draws: DrawSource,
        rows: BatchRows | None = None,
        row: int = 0,
        first_steps: FirstSteps | None = None,
    ) -> NDArray[np.uint8] | StatusFailure: ...
    def check_bytes(self, contents: bytes) -> tuple[int, int, int, int] | None: ...
    def read_open(
        self, descriptor: int, path: bytes = b""
    ) -> tuple[bytes, tuple[int, int, int, int] | None, bytes] | None: ...
    @property
    def fallback_reason(self) -> str: ...
    @property
    def keeps_info(self) -> bool: ...
    def take_counters(self) -> SampleCounters: ...

def decode_jpeg(
    data: bytes,
    region: tuple[int, int, int, int] | None = None,
    *,
    max_pixels: int = ...,
    max_scans: int = ...,
    record: bytes | None = None,
    is_dense: bool = False,
) -> tuple[NDArray[np.uint8] | None, str, str, int, bytes | None, bool]: ...
def record_coefficients(data: bytes, key: bytes, salt: int = 0) -> tuple[bytes | None, str, str]: ...
def decode_coefficients(
    record: bytes, region: tuple[int, int, int, int], key: bytes, salt: int = 0
) -> tuple[NDArray[np.uint8] | None, str, str]: ...

# bind_arena.cpp. Note [arena slots] in csrc/processes/slots.h says how parent and worker use them.
class Arena:
    def __init__(self, num_slots: int = 16, max_slot_bytes: int = 1 << 32, is_forked: bool = True) -> None: ...
    @staticmethod
    def from_descriptor(descriptor: int, num_slots: int, slot_bytes: int, is_limited: bool = False) -> Arena: ...
    @property
    def is_limited(self) -> bool: ...
    @property
    def descriptor(self) -> int | None: ...
    @property
    def num_slots(self) -> int: ...
    @property
    def slot_bytes(self) -> int: ...
    def close_descriptor(self) -> None: ...
    def copy_out(self, slot: int, offset: int, address: int, nbytes: int) -> None: ...
    def release(self) -> None: ...
    def resident_bytes(self) -> int: ...

class ArenaSlots:
    def __init__(self, arena: Arena) -> None: ...
    def set_free(self, slots: Sequence[int]) -> None: ...
    def begin_batch(self) -> None: ...
    def allocate(self, nbytes: int) -> HostBuffer | None: ...
    def find(self, address: int, nbytes: int) -> tuple[int, int] | None: ...
    def append(self, address: int, nbytes: int) -> tuple[int, int] | None: ...
    def end_batch(self) -> int | None: ...
    def release(self) -> None: ...

# bind_worker_forks.cpp
class HeldSignals:
    def __init__(self, signals: Sequence[int]) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...

def sharing_obstacle() -> str | None: ...

# Estimates how many objects forked workers can share, and the bytes that each copies if they do not.
def estimate_objects(roots: tuple[Any, ...]) -> tuple[float, float]: ...

# In the parent a list of (pid, sentinel, lifeline), or why the objects could not be shared; in a worker (number,
# parent_sentinel). csrc/python/worker_forks.h has the contract.
def fork_workers(roots: tuple[Any, ...], num_workers: int) -> list[tuple[int, int, int]] | tuple[int, int] | str: ...
