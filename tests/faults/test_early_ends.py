"""Epochs that end early, a thousand times, in every kind of loader: threads, descriptors and memory stay flat."""

from __future__ import annotations

import textwrap

import pytest
from children import RunChild

pytestmark = pytest.mark.alone

PRELUDE = """
import warnings
from pathlib import Path

from held import held_now, settled
from PIL import Image
from torch.utils.data import Dataset, IterableDataset
from torchvision import transforms
from torchvision.datasets import ImageFolder
from torchvision.transforms.functional import pil_to_tensor

warnings.filterwarnings("ignore", message="This DataLoader will")  # 8 workers are more than the processors
folder = Path("png")
for path in Path(os.environ["FASTLOAD_TEST_FOLDER"]).glob("*/*.JPEG"):
    (folder / path.parent.name).mkdir(parents=True, exist_ok=True)
    Image.open(path).convert("RGB").resize((48, 40)).save(folder / path.parent.name / f"{path.stem}.png")
paths = sorted(folder.glob("*/*.png")) * 4


def load(path):
    return pil_to_tensor(Image.open(path).convert("RGB"))


class Pictures(Dataset):
    def __len__(self):
        return len(paths)

    def __getitem__(self, index):
        return load(paths[index]), index


class DrawnPictures(Pictures):
    def __getitem__(self, index):
        return load(paths[index]) * torch.rand(1), index


class StreamOfPictures(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        return ((load(paths[number]), number) for number in range(info.id, len(paths), info.num_workers))


def picture_folder(*steps, root=folder):
    dataset = ImageFolder(root, transforms.Compose([transforms.RandomCrop(32), transforms.ToTensor(), *steps]))
    dataset.samples = dataset.samples * 4
    return dataset


MAKERS = {
    "native": picture_folder,
    "native, JPEG": lambda: picture_folder(root=os.environ["FASTLOAD_TEST_FOLDER"]),
    "python part": lambda: picture_folder(lambda image: image * torch.rand(1)),
    "map": Pictures,
    "map, drawing": DrawnPictures,
    "iterable": StreamOfPictures,
}


def arguments_of(num_workers, batch_size=4):
    return {"batch_size": batch_size, "num_workers": num_workers, "prefetch_factor": 1}


def our_threads():
    return sum(thread.name.startswith("fastload") for thread in threading.enumerate()) + num_native_threads()
"""

KINDS = pytest.mark.parametrize("kind", ["native", "python part", "map", "map, drawing", "iterable"])


@pytest.fixture
def run_picture_child(run_loader_child: RunChild) -> RunChild:
    return lambda code, **arguments: run_loader_child(PRELUDE + textwrap.dedent(code), **arguments)


@KINDS
def test_a_folder_of_png_files_is_closed_at_every_step(run_picture_child: RunChild, kind: str) -> None:
    """There are eight threads, each one batch ahead; the batches before the end are torch's."""
    run_picture_child(
        f"""
        dataset = MAKERS[{kind!r}]()
        torch.manual_seed(5)
        expected = list(torch.utils.data.DataLoader(dataset, multiprocessing_context="fork", **arguments_of(8)))
        assert len(expected) >= 12
        loader = Threads(dataset, **arguments_of(8))
        next(iter(loader))
        loader.close()
        assert wait_for(lambda: held_now().threads == 1)
        mib, before = [], held_now()
        def end_by_close(iterator):
            loader.close()
            assert wait_for(lambda: our_threads() == 0)
            try:
                next(iterator)
            except (fastload.LoaderClosedError, StopIteration):
                return
            raise AssertionError("a closed iterator gave a batch")
        def end_by_dropping(iterator):
            iterator.me = iterator
        for end in (end_by_close, end_by_dropping, end_by_close, end_by_dropping):
            for num_steps in range(len(expected) + 1):
                torch.manual_seed(5)
                iterator = iter(loader)
                for wanted in expected[:num_steps]:
                    assert all(map(torch.equal, next(iterator), wanted)), num_steps
                end(iterator)
                del iterator
            gc.collect()
            loader.close()
            assert wait_for(lambda: our_threads() == 0)
            mib.append(resident_mib())
            assert wait_for(lambda: held_now() == before), (held_now(), before)
        assert mib[3] - mib[1] < 8, mib
        assert loader.stats().batches_in_flight == 0
        """,
        timeout=60,
    )


@pytest.mark.parametrize("kind", ["native", "native, JPEG", "python part", "map", "map, drawing", "iterable"])
def test_a_thousand_dropped_iterators_leave_threads_descriptors_and_memory_flat(
    run_picture_child: RunChild, kind: str
) -> None:
    run_picture_child(
        f"""
        loader = Threads(MAKERS[{kind!r}](), **arguments_of(2, batch_size=1))
        def drop(count):
            for number in range(count):
                iterator = iter(loader)
                if number % 2:
                    next(iterator)
                del iterator
            is_at_rest = lambda: our_threads() == num_threads and loader.stats().batches_in_flight == 0
            assert wait_for(is_at_rest), (our_threads(), loader.stats())
        # Native threads, and the two that ask Pillow, belong to the loader; threads of Python to an iterator.
        num_threads = 4 if {kind!r}.startswith("native") else 0
        drop(100)
        before, mib = settled(), resident_mib()  # a thread may still have a file open
        drop(1000)
        assert wait_for(lambda: held_now() == before), (held_now(), before)
        assert resident_mib() - mib < 16, (mib, resident_mib())
        """,
        timeout=60,
    )
