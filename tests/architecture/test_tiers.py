"""The tiers of tests: every case is in one, and the choice of cases is small and covers pairs of values."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import campaign
import checkout
import fuzzing
import pytest
import seeded_faults
import tiers


def test_every_folder_with_tests_has_a_tier_and_no_other_has_one() -> None:
    files = [path for folder in ("tests", "benchmarks") for path in (tiers.ROOT / folder).rglob("test_*.py")]
    assert {path.relative_to(tiers.ROOT).parent.as_posix() for path in files} == set(tiers.SUITES)


def test_a_folder_without_a_tier_ends_the_collection_with_its_name() -> None:
    with pytest.raises(pytest.UsageError, match="tests/new has no tier; give it one in"):
        tiers.suite_of(tiers.ROOT / "tests" / "new" / "test_thing.py")


@pytest.mark.parametrize("shape", [(1,), (8,), (3, 3), (65,), (2, 3, 4), (4, 6, 12)])
def test_a_choice_of_cases_is_small_and_has_every_value_that_fits(shape: tuple[int, ...]) -> None:
    cases = list(itertools.product(*map(range, shape)))
    chosen = tiers.choose_pairwise(cases, 8)
    assert len(chosen) == len(set(chosen)) == min(8, len(cases))
    for parameter, count in enumerate(shape):
        assert len({cases[position][parameter] for position in chosen}) == min(8, count)


def test_every_pair_of_two_small_parameters_is_chosen_where_there_is_room() -> None:
    cases = list(itertools.product(range(2), range(2), range(2), range(2)))
    chosen = [cases[position] for position in tiers.choose_pairwise(cases, 8)]
    for one, other in itertools.combinations(range(4), 2):
        assert {(case[one], case[other]) for case in chosen} == set(itertools.product(range(2), range(2)))


class FakeItem:
    """A collected case, as far as the tiers look at it."""

    def __init__(self, name: str, folder: str, *marks: str) -> None:
        self.name = self.originalname = name
        self.path = tiers.ROOT / folder / "test_file.py"
        self.marks = marks

    def get_closest_marker(self, name: str) -> Any:
        return name if name in self.marks else None


def select(tier: str, items: list[Any]) -> tuple[list[str], list[str]]:
    """Returns the names of the cases in a tier and of the others."""
    kept, left = list(items), []
    tiers.select(tier, kept, left.extend)
    return [item.name for item in kept], [item.name for item in left]


def test_test_is_part_of_ci_and_ci_and_weekly_are_all() -> None:
    items = [
        FakeItem("plain", "tests/unit"),
        FakeItem("slow", "tests/unit", "slow"),
        *[FakeItem("many", "tests/oracle") for _ in range(20)],
        FakeItem("build", "tests/cpp", "slow", "smoke"),
        FakeItem("compiler", "tests/cpp", "weekly"),
        FakeItem("fault", "tests/faults"),
        FakeItem("smoke", "tests/faults", "smoke"),
        FakeItem("gpu", "tests/device", "gpu"),
        *[FakeItem("loads", "tests/loader") for _ in range(30)],
    ]
    found = {tier: select(tier, items) for tier in tiers.TIERS}
    assert all(sorted(kept + left) == sorted(item.name for item in items) for kept, left in found.values())
    assert found["test"][0] == ["plain", *["many"] * 6, "build", "smoke", *["loads"] * 4]
    assert found["weekly"][0] == ["compiler", *["loads"] * 6]
    assert sorted(found["ci"][0]) == sorted(found["weekly"][1])
    assert not Counter(found["test"][0]) - Counter(found["ci"][0])
    assert found["all"][1] == []


def test_cases_of_a_tier_run_in_the_order_of_the_suites() -> None:
    items = [FakeItem("last", "tests/worker_state"), FakeItem("first", "tests/unit"), FakeItem("then", "tests/oracle")]
    assert select("test", items)[0] == ["first", "then", "last"]


def test_more_cases_of_a_function_contain_the_fewer() -> None:
    cases = list(itertools.product(range(5), range(5), range(5)))
    few = tiers.choose_pairwise(cases, 4)
    more = tiers.choose_pairwise(cases, 24, few)
    assert set(few) < set(more)
    assert len(more) == 24


def test_a_tier_that_is_none_is_named() -> None:
    with pytest.raises(pytest.UsageError, match="--tier must be one of test, ci, weekly, all, got 'some'"):
        tiers.select("some", [], list)


@pytest.mark.slow
@pytest.mark.parametrize("name", campaign.CAMPAIGNS)
def test_some_cases_of_every_campaign_find_nothing(name: str, run_child: Any) -> None:
    result = run_child(
        f"import sys, campaign; sys.argv[1:] = ['--only', {name!r}, '--first', '1', '--cases', '4']; campaign.main()",
        timeout=600,
    )
    assert result.stdout.splitlines()[-1] == f"{name}: 4 cases from seed 1 on, 0 failed"


def test_a_run_of_a_campaign_goes_on_where_the_last_one_ended_and_tells_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "campaigns.md"
    record.write_text("| 2026-01-02 | abc | 3 | files | 10..19 | 12 |\n")
    monkeypatch.setattr(campaign, "RECORD", record)
    first = campaign.next_seeds()
    assert first == {**dict.fromkeys(campaign.CAMPAIGNS, 10_000), "files": 20}
    monkeypatch.setitem(campaign.CAMPAIGNS, "files", (lambda folder: lambda seed: 1 / (seed - 21), 1))
    found = campaign.run(["files"], 0, first, 3)
    assert found == {"files": (3, [21])}
    campaign.write_record(found, first, 7)
    assert record.read_text().splitlines()[-1].endswith(f"| {checkout.commit()} | 7 | files | 20..22 | 21 |")
    assert campaign.next_seeds()["files"] == 23


def test_a_run_without_git_is_recorded_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert checkout.commit() == "unknown"


def test_the_record_ends_with_the_table_that_runs_are_added_to() -> None:
    heads = [line for line in campaign.RECORD.read_text().split("\n\n")[-1].splitlines() if line.startswith("| date |")]
    assert heads == ["| date | commit | minutes of the run | campaign | seeds or counts | finds |"]


SOAK = """
    import itertools, os, threading, time, soak
    soak.time.sleep = lambda seconds: None
    tasks = lambda: len(os.listdir("/proc/self/task"))
    tasks_before = tasks()
    is_over, passes = threading.Event(), itertools.count()
    left = threading.Thread(target=is_over.wait)

    def run():
        number = next(passes)
        if number == 3:
            left.start()
        return "other" if number == 4 else "same"

    resident, finds = soak.soak(run, 0)
    is_over.set()
    left.join()
    end = time.monotonic() + 20
    while tasks() > tasks_before:  # the system has it a moment longer than Python
        assert time.monotonic() < end
    assert len(resident) == 4, resident
    assert finds[0].startswith("pass 3 left Held(threads="), finds
    assert finds[1] == "pass 4 gave something else", finds
    assert soak.soak(lambda: "same", 0)[1] == []
    print("fine")
"""


def test_a_soak_finds_what_is_left_behind_and_what_differs(run_child: Any) -> None:
    """The soak has a process of its own: threads of other tests may end meanwhile."""
    assert run_child(SOAK).stdout.splitlines()[-1] == "fine"


def test_a_fuzzer_that_crashes_leaves_its_input_and_its_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "WORK", tmp_path)
    program = tmp_path / "fuzz_probe"
    program.write_text(
        """#!/bin/sh
        for option; do case $option in -artifact_prefix=*) touch "${option#*=}crash-1";; esac; done
        echo "#7 NEW cov: 31 ft: 40" >&2
        echo "stat::number_of_executed_units: 1200" >&2
        exit 77
        """
    )
    program.chmod(0o755)
    cases, finds = fuzzing.fuzz(program, "probe", 1)
    assert cases == "0 processor minutes, 1,200 executions, 31 edges, 0 inputs"
    assert finds == ["probe-crash-1"]


@pytest.mark.parametrize(("alone", "finds"), [("true", []), ("false", ["probe-timeout-1"])])
def test_a_fuzzers_input_that_only_the_machine_held_up_is_no_find(
    alone: str, finds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzzing, "WORK", tmp_path)
    program = tmp_path / "fuzz_probe"
    program.write_text(
        f"""#!/bin/sh
        for option; do case $option in -artifact_prefix=*) prefix="${{option#*=}}";; esac; done
        if [ -z "$prefix" ]; then exec {alone}; fi
        sleep 1
        echo "stat::number_of_executed_units: 1200" >&2
        touch "${{prefix}}timeout-1"
        exit 70
        """
    )
    program.chmod(0o755)
    cases, found = fuzzing.fuzz(program, "probe", 3)
    assert found == finds
    assert ("1,200 executions" in cases) == bool(finds), "it goes on where nothing was found"
    assert [path.name for path in (tmp_path / "finds").iterdir()] == finds


def test_every_seeded_fault_can_be_put_into_the_product() -> None:
    for fault in seeded_faults.FAULTS:
        text = (tiers.ROOT / fault.path).read_text()
        assert text.count(fault.text) == 1, fault.name
        assert fault.text != fault.replacement
        assert all((tiers.ROOT / suite).exists() for suite in fault.suites.split()), fault.name
