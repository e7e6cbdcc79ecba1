"""The DataLoader's contract, row by row: what torch does, whether fastload does it, and the tests that show it.

``python tests/contract/rows.py`` writes docs/dataloader-contract.md from this; test_rows.py checks that every test
named here exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "dataloader-contract.md"

HELD, DEVIATED, NOT_APPLICABLE = "held", "deviated", "not applicable"


@dataclass(frozen=True)
class Row:
    """One thing that a program may rely on.

    Attributes:
        section: The section of the contract.
        name: The thing's name, as in torch's documentation if it has one there.
        torch: The behaviour of torch.
        verdict: HELD, DEVIATED (on purpose) or NOT_APPLICABLE.
        reason: For a verdict other than HELD: what is done instead, and why. For HELD a remark, or nothing.
        tests: The tests that show it, each "file.py::function" below tests/contract, or "folder/file.py::function"
            below tests.
    """

    section: str
    name: str
    torch: str
    verdict: str
    reason: str
    tests: tuple[str, ...]


def held(section: str, name: str, torch: str, *tests: str, note: str = "") -> Row:
    return Row(section, name, torch, HELD, note, tests)


def deviated(section: str, name: str, torch: str, reason: str, *tests: str) -> Row:
    return Row(section, name, torch, DEVIATED, reason, tests)


ARGUMENTS, OBJECT, ITERATION, WORKERS, ERRORS, RANDOM, COLLATION, PINNING, DISTRIBUTED = SECTIONS = (
    "Arguments",
    "The loader as an object",
    "Iteration",
    "Inside a worker",
    "Errors and ends",
    "Random numbers",
    "Collation",
    "Pinning",
    "Distributed training and frameworks",
)

_CONSTRUCTION = ("test_arguments.py::test_construction_ends_as_torchs",)
_CHECKS = (*_CONSTRUCTION, "test_arguments.py::test_iter_raises_what_torchs_raises")
_RANDOM_CASES = ("test_random_datasets.py::test_data_sets_made_at_random_equal_torchs_at_every_step",)
_EPOCHS = (
    "test_map_datasets.py::test_three_epochs_are_torchs_to_the_byte",
    "test_iterable_datasets.py::test_three_epochs_are_torchs_to_the_byte",
)

ROWS: tuple[Row, ...] = (
    # ---- arguments -------------------------------------------------------------------------------------------------
    held(
        ARGUMENTS,
        "dataset, map-style",
        "anything with `__getitem__`, and with `__len__` if a default sampler needs it: lists and dicts too",
        "test_map_datasets.py::test_three_epochs_are_torchs_to_the_byte",
        "test_arguments.py::test_a_dataset_without_a_length_is_refused_where_torch_refuses_it",
        "loader/test_random_loaders.py::test_loaders_made_at_random_equal_torchs_at_every_step",
        *_RANDOM_CASES,
    ),
    held(
        ARGUMENTS,
        "dataset, iterable",
        "recognised by its type; shuffle, sampler and batch_sampler are refused",
        "test_iterable_datasets.py::test_three_epochs_are_torchs_to_the_byte",
        "test_arguments.py::test_iterable_datasets_are_constructed_as_torch_does",
    ),
    held(
        ARGUMENTS,
        "a copy of dataset for each worker",
        "each forked worker has its own, as it was at iter(): its changes are lost with it",
        "test_deviations.py::test_what_the_dataset_keeps_is_its_workers_own",
        "test_deviations.py::test_without_copies_what_the_dataset_keeps_stays",
        "test_workers.py::test_what_an_init_function_sets_of_a_dataset_is_its_workers_own",
        "test_iterable_datasets.py::test_an_init_function_may_leave_each_worker_its_part",
        "test_workers.py::test_per_thread_gives_each_thread_one_handle",
        "test_map_datasets.py::test_thread_safe_false_asks_the_dataset_from_one_thread_at_a_time",
        "test_map_datasets.py::test_thread_safe_false_holds_for_all_loaders_of_a_dataset",
        note="no method of it is called and nothing pickled; arrays and tensors above 16 MiB, and objects that cannot "
        "be copied, are shared: `explain()` names them. `copy=False` shares all",
    ),
    deviated(
        ARGUMENTS,
        "samples that are a data set's own memory",
        "copies in the main process, which may be changed in place; without workers the data set's own memory too",
        "with batch_size=None, or a collate_fn that copies nothing, a change to a batch also changes the worker's copy "
        "of the data set, or an array that all share; read-only memory stays read-only",
        "test_deviations.py::test_samples_that_are_not_collated_are_the_workers_own_memory",
    ),
    held(
        ARGUMENTS,
        "batch_size",
        "a positive int, or None for samples without batches; 0, floats and bools are refused at construction",
        *_CHECKS,
        "test_iteration.py::test_batches_and_lengths_equal_torchs",
    ),
    held(
        ARGUMENTS,
        "shuffle",
        "None, False or True; exclusive with sampler and batch_sampler",
        *_CHECKS,
        "test_iteration.py::test_batches_and_lengths_equal_torchs",
    ),
    held(
        ARGUMENTS,
        "sampler",
        "any iterable; its keys may be anything",
        *_CHECKS,
        "test_iteration.py::test_samplers_give_torchs_batches_and_lengths",
        "test_iteration.py::test_a_key_of_any_kind_reaches_a_dataset_that_takes_it",
    ),
    held(
        ARGUMENTS,
        "batch_sampler",
        "any iterable of lists; batch_size becomes None and drop_last False",
        *_CHECKS,
        "test_iteration.py::test_batch_samplers_give_torchs_batches_and_lengths",
    ),
    held(
        ARGUMENTS,
        "num_workers",
        "0 loads in the calling thread, negative numbers are refused",
        *_CHECKS,
        *_EPOCHS,
        note='the number of threads; "auto" is fastload\'s own',
    ),
    deviated(
        ARGUMENTS,
        "num_workers above the number of processors",
        "warns of worker processes, at construction and again at iter()",
        "warns of threads, once",
        "test_deviations.py::test_too_many_workers_warn_once_and_of_threads",
        "test_arguments.py::test_too_many_workers_warn_of_threads_at_construction_and_not_again",
    ),
    held(
        ARGUMENTS,
        "collate_fn",
        "default_collate, or default_convert without batches; called in the worker, once for each batch",
        "test_arguments.py::test_default_collate_is_torchs_own_function",
        "test_collation.py::test_a_collate_function_of_ones_own_gets_the_list_of_samples",
        "test_deviations.py::test_collate_functions_run_in_the_worker_once_for_each_batch",
        "test_map_datasets.py::test_a_collate_function_that_changes_its_samples_and_draws_is_called_once",
    ),
    held(
        ARGUMENTS,
        "pin_memory",
        "warns and goes on without an accelerator, and on MPS",
        "test_arguments.py::test_pin_memory_without_an_accelerator_warns_and_goes_on",
        "test_collation.py::test_mps_is_not_pinned_for",
    ),
    held(
        ARGUMENTS,
        "drop_last",
        "drops a last batch that is not full, for an iterable data set in each worker; refused without batches",
        *_CHECKS,
        "test_iteration.py::test_batches_and_lengths_equal_torchs",
        "test_iterable_datasets.py::test_three_epochs_are_torchs_to_the_byte",
    ),
    held(
        ARGUMENTS,
        "timeout",
        "negative: ValueError; without workers an AssertionError at iter(); after that time a RuntimeError",
        *_CHECKS,
        "test_deviations.py::test_a_timeout_has_torchs_words_and_costs_no_batch",
        "test_iteration.py::test_a_timeout_is_torchs_error_and_the_batch_comes_later",
        "test_map_datasets.py::test_a_timeout_counts_from_the_batch_that_came_last_as_in_torch",
    ),
    held(
        ARGUMENTS,
        "worker_init_fn",
        "called in each worker with its number, after it was seeded; never without workers",
        "test_workers.py::test_init_functions_that_seed_torch_seed_the_workers_as_in_torch",
        "test_workers.py::test_an_error_of_an_init_function_comes_with_the_first_batch",
        "test_obstacles.py::test_worker_init_fn_is_no_obstacle_without_workers_where_torch_never_calls_it",
    ),
    held(
        ARGUMENTS,
        "worker_init_fn that seeds random, NumPy or torch",
        "seeds the generators of its worker",
        "test_workers.py::test_an_init_function_seeds_its_workers_three_generators_and_not_the_programs",
    ),
    held(
        ARGUMENTS,
        "worker_init_fn that changes the dataset",
        "changes the copy of its worker",
        "test_workers.py::test_what_an_init_function_changes_of_native_samples_is_its_workers_own",
        "test_workers.py::test_what_an_init_function_sets_of_a_dataset_is_its_workers_own",
        note="such a loader runs in Python, even if the function only refers to the data set",
    ),
    deviated(
        ARGUMENTS,
        "worker_init_fn that fails",
        "its error comes with the worker's first batch, then UnboundLocalError for each further one",
        "its error comes with every batch of the worker",
        "test_deviations.py::test_an_error_of_worker_init_fn_is_told_with_every_batch",
        "test_workers.py::test_an_error_of_an_init_function_comes_with_the_first_batch",
    ),
    held(
        ARGUMENTS,
        "multiprocessing_context",
        "a name or a context, checked; refused without workers; an attribute, also when set later",
        *_CONSTRUCTION,
        "test_subclasses.py::test_what_may_not_be_set_later_is_refused_in_torchs_words",
        "test_subclasses.py::test_a_class_derived_from_it_works_as_one_derived_from_torchs",
        note="it has no effect on threads",
    ),
    held(
        ARGUMENTS,
        "workers that are processes",
        "each worker is a process, started as `multiprocessing_context` says",
        "test_worker_processes.py::test_epochs_are_torchs_to_the_byte",
        "test_worker_processes.py::test_errors_have_all_of_torchs_words",
        "test_worker_processes.py::test_a_timeout_is_torchs",
        "test_worker_processes.py::test_a_process_that_ends_is_told_by_torch",
        "test_worker_processes.py::test_images_that_are_opened_are_torchs_and_native",
        "test_worker_processes.py::test_images_are_native_in_processes_that_are_not_forked",
        "test_worker_processes.py::test_the_loaders_attributes_stay_the_users",
        "test_worker_processes.py::test_what_processes_do_not_have_is_refused_by_name",
        note='with `workers="processes"`: torch\'s own iterator and processes; the other rows describe threads',
    ),
    held(
        ARGUMENTS,
        "generator",
        "the base seed, then the random sampler's numbers are drawn from it",
        "test_draws.py::test_generators_are_where_torch_leaves_them_after_every_step",
        "loader/test_torch_random.py::test_a_generator_of_the_users_gives_torchs_batches",
    ),
    held(
        ARGUMENTS,
        "prefetch_factor",
        "refused without workers; the number of batches per worker requested ahead, default 2; 0 fails at iter()",
        *_CHECKS,
        "test_iteration.py::test_no_more_batches_are_asked_for_ahead_than_torch_asks",
        "test_iteration.py::test_settings_that_became_wrong_are_refused_at_iter_as_torch_does",
    ),
    held(
        ARGUMENTS,
        "persistent_workers",
        "refused without workers; iter() gives the same iterator each time, restarted",
        *_CHECKS,
        "test_iteration.py::test_persistent_iterators_begin_again_in_the_middle",
        "test_iterable_datasets.py::test_persistent_workers_begin_a_new_iterator_each_epoch",
    ),
    held(
        ARGUMENTS,
        "pin_memory_device",
        "deprecated: warns at iter() and is ignored",
        *_CONSTRUCTION,
        "test_collation.py::test_a_device_for_pinning_is_deprecated_in_torchs_words",
    ),
    held(
        ARGUMENTS,
        "in_order",
        "False: the first batch that is ready comes first",
        "test_deviations.py::test_order_is_given_up_as_in_torch_and_only_where_that_is_asked_for",
        "test_iteration.py::test_without_order_every_batch_comes_once",
        "test_iteration.py::test_native_batches_come_in_order_also_where_that_is_not_asked_for",
        note="native batches always come in order, because all threads work on the oldest one; with torch 2.4 too",
    ),
    held(
        ARGUMENTS,
        "worker_method",
        "processes or threads, in a future torch; TypeError if torch does not have it",
        "test_subclasses.py::test_worker_method_is_torchs_to_know",
        "test_subclasses.py::test_torchs_class_gets_only_what_its_signature_has",
        note='threads in any case; the installed torch\'s signature decides, but "multiprocessing" always works',
    ),
    held(
        ARGUMENTS,
        "unknown keywords, order of arguments",
        "TypeError; the first 13 arguments may come by position",
        *_CONSTRUCTION,
        "test_arguments.py::test_positional_arguments_are_in_torchs_order_and_keywords_are_known",
        "test_subclasses.py::test_every_argument_may_come_by_position_as_in_torch",
    ),
    # ---- the object ------------------------------------------------------------------------------------------------
    held(
        OBJECT,
        "classes derived from it",
        "may replace any method, set attributes before or after, exchange the batch sampler despite the guard",
        "test_subclasses.py::test_a_class_derived_from_it_works_as_one_derived_from_torchs",
        "test_subclasses.py::test_a_derived_class_may_own_attributes_of_fastloads_names",
        "test_subclasses.py::test_copies_of_a_derived_class_keep_its_attributes_and_the_settings",
        "test_subclasses.py::test_a_derived_class_may_make_its_state_of_its_dict",
        "test_objects.py::test_it_is_torchs_dataloader",
        note="its attributes may have the names of fastload's own arguments (rng, seed, device, ...); the loader then "
        "goes by the values passed to the constructor, whatever is set later",
    ),
    held(
        OBJECT,
        "attributes",
        "each argument is one, with its resolved value",
        *_CONSTRUCTION,
        "test_subclasses.py::test_attributes_and_properties_have_torchs_values",
        "test_objects.py::test_every_argument_is_an_attribute_of_its_name",
    ),
    held(
        OBJECT,
        "attributes that may not be set",
        "batch_size, batch_sampler, sampler, drop_last, dataset, persistent_workers: ValueError",
        "test_subclasses.py::test_what_may_not_be_set_later_is_refused_in_torchs_words",
        "test_objects.py::test_guarded_attributes_cannot_be_set",
    ),
    held(
        OBJECT,
        "attributes that are set later",
        "take effect at the next iter()",
        "test_subclasses.py::test_what_is_set_later_counts_from_the_next_iter_on",
        "test_subclasses.py::test_num_workers_lowered_to_none_is_loading_by_the_caller",
    ),
    deviated(
        OBJECT,
        "num_workers raised from 0 later",
        "TypeError at iter(), because prefetch_factor is still None",
        "it works, with torch's default prefetch_factor",
        "test_subclasses.py::test_num_workers_raised_later_is_an_error_in_torch_and_works_here",
        "test_iteration.py::test_num_workers_may_change_between_epochs",
    ),
    deviated(
        OBJECT,
        "absurdly large numbers",
        "starts processes, requests batches or makes lists of indices for hours; TypeErrors and OverflowErrors from "
        "internal code",
        "an error that names argument and value: at most 4096 workers, 1,048,576 batches in flight, 2,147,483 seconds "
        "of timeout, batches of 16,777,216 from an IterableDataset",
        "test_absurd_settings.py::test_torchs_arguments_fail_as_in_torch_or_are_named",
    ),
    held(
        OBJECT,
        "pickles and copies",
        "a loader can be pickled and copied; an iterator raises NotImplementedError",
        "test_objects.py::test_iterators_cannot_be_copied",
        "test_objects.py::test_loaders_can_be_copied_before_and_while_iterating",
    ),
    held(
        OBJECT,
        "other versions of torch",
        "2.4 has no in_order; later ones will have more arguments",
        "test_subclasses.py::test_torchs_class_gets_only_what_its_signature_has",
        note="torch's class gets only the arguments in its signature",
    ),
    # ---- iteration -------------------------------------------------------------------------------------------------
    held(
        ITERATION,
        "several iterators at once",
        "independent of each other, unless workers are persistent",
        "test_subclasses.py::test_iterators_at_once_draw_and_deliver_as_torchs_do",
        "test_iteration.py::test_iterators_are_independent",
        *_RANDOM_CASES,
    ),
    held(
        ITERATION,
        "len()",
        "from the batch sampler or sampler, TypeError if it has none; for an iterable data set by division",
        "test_subclasses.py::test_lengths_of_loaders_and_iterators_and_their_errors_are_torchs",
        "test_iteration.py::test_the_length_of_an_iterable_dataset_is_torchs_with_its_warning",
        "test_iteration.py::test_samplers_give_torchs_batches_and_lengths",
    ),
    held(
        ITERATION,
        "an iterable data set longer than its length",
        "warns at each extra item",
        "test_iterable_datasets.py::test_more_items_than_its_length_warn_in_torchs_words",
        "test_subclasses.py::test_a_stream_longer_than_its_length_warns_once_for_each_batch_too_many",
    ),
    held(
        ITERATION,
        "an epoch left early",
        "dropping the iterator ends its workers",
        "test_draws.py::test_generators_are_where_torch_leaves_them_after_every_step",
        "test_map_datasets.py::test_a_persistent_epoch_left_early_has_drawn_as_torch_has",
        "test_iterable_datasets.py::test_a_persistent_epoch_may_be_left_early",
        "test_iterable_datasets.py::test_a_stream_that_is_left_early_ends_in_the_thread_that_has_run_it",
        "faults/test_without_collector.py::test_an_iterator_that_is_dropped_leaves_nothing",
        "faults/test_python_part_lifecycle.py::test_threads_end_with_an_iterator_that_the_users_code_leads_back_to",
        "faults/test_early_ends.py::test_a_thousand_dropped_iterators_leave_threads_descriptors_and_memory_flat",
        note="finalizers signal and never wait",
    ),
    held(
        ITERATION,
        "`__getitems__`",
        "asked for a whole batch if the data set has it and it is not None; Subset passes it on",
        *_EPOCHS[:1],
        "test_map_datasets.py::test_sample_lists_are_asked_once_for_a_batch",
        "test_map_datasets.py::test_a_bad_index_into_a_subset_of_a_subset_is_found_before_anything_is_drawn",
    ),
    deviated(
        ITERATION,
        "a data set that is changed in mid-epoch",
        "the change counts from the next batch without workers, from the next iter() with them",
        "for natively loaded images from the next iter() in either case",
        "test_deviations.py::test_a_transform_that_is_changed_in_an_epoch_without_workers_counts_from_the_next_one",
    ),
    deviated(
        ITERATION,
        "files that are rewritten between the epochs of persistent workers",
        "read as they are during the epoch",
        "if neither sampler nor transform draws, the first `prefetch_factor * num_workers` native batches are read "
        "at the end of the previous epoch",
        "loader/test_next_epoch.py::test_evaluation_begins_its_next_epoch_when_one_ends",
    ),
    held(
        ITERATION,
        "the current directory, for relative paths",
        "without workers the program's at each read; in a worker the program's at iter(), and then its own",
        "loader/test_working_directory.py::test_relative_paths_are_looked_up_where_torch_does",
        "loader/test_working_directory.py::test_persistent_workers_stay_where_they_began",
        "loader/test_working_directory.py::test_a_workers_directory_is_its_own",
        note="for your Python code only if the system lets a thread have its own directory: some containers do not",
    ),
    deviated(
        ITERATION,
        "settings of the process: os.environ, warnings filters, torch's default dtype, Pillow's limits; "
        "multiprocessing.current_process()",
        "a worker starts with the program's and then has its own",
        "the program's, as without workers",
        "test_deviations.py::test_settings_of_the_process_hold_for_all_threads",
        "test_deviations.py::test_the_current_process_of_a_worker_is_the_programs",
    ),
    held(
        ITERATION,
        "batch_size=None",
        "one key at a time, each item through default_convert",
        "test_iteration.py::test_without_batches_the_samples_come_as_default_convert_leaves_them",
        "test_collation.py::test_every_kind_of_sample_becomes_what_torch_makes_of_it",
        "loader/test_python_part.py::test_without_batches_each_sample_comes_alone",
    ),
    held(
        ITERATION,
        "unit of work",
        "worker k mod N makes all of batch k; each sample is asked for once, in order",
        "test_map_datasets.py::test_a_batch_is_made_by_one_thread_as_in_torch",
        *_RANDOM_CASES,
        note="all threads make native batches together, to the same bytes",
    ),
    held(
        ITERATION,
        "iterable data sets in workers",
        "each worker iterates over all of it, unless the data set splits it; each ends by itself",
        "test_iterable_datasets.py::test_three_epochs_are_torchs_to_the_byte",
        "test_deviations.py::test_an_iterable_dataset_has_an_iterator_for_each_thread",
        "test_iterable_datasets.py::test_a_dataset_is_asked_for_its_iterator_when_torch_asks",
        note="`num_streams` sets the number of iterators",
    ),
    held(
        ITERATION,
        "an iterable data set that is its own iterator",
        "each worker has a copy of it, and gives every item",
        "test_iterable_datasets.py::test_a_dataset_that_is_its_own_iterator_is_each_workers_own",
        "test_iterable_datasets.py::test_with_num_streams_a_dataset_is_run_once",
        "test_iterable_datasets.py::test_threads_may_take_turns_with_the_iterator_that_they_share",
        note="`num_streams=1` runs it once",
    ),
    held(
        ITERATION,
        "an iterable data set that sets its attributes during iteration",
        "each worker sets its own copy's attributes",
        "test_iterable_datasets.py::test_attributes_that_are_set_while_it_is_iterated_over_are_each_workers_own",
    ),
    held(
        ITERATION,
        "data pipes",
        "their graph is shuffled, sharded and seeded",
        "test_deviations.py::test_data_pipes_are_shuffled_sharded_and_seeded_as_by_torch",
        "test_obstacles.py::test_datapipes_go_to_torchs_own_iterator",
        note="torch's own iterator runs",
    ),
    held(
        ITERATION,
        "profiler",
        "sees `enumerate(DataLoader)#<class of the iterator>.__next__` for each step",
        "test_subclasses.py::test_profilers_see_a_step_named_by_torchs_scheme_for_each_batch",
        "test_objects.py::test_profilers_see_the_iterator_by_torchs_scheme",
    ),
    # ---- inside a worker -------------------------------------------------------------------------------------------
    held(
        WORKERS,
        "get_worker_info()",
        "id, num_workers, seed and data set in a worker, None elsewhere",
        "test_workers.py::test_ids_seeds_and_thread_counts_are_those_of_torchs_workers",
        "test_workers.py::test_functions_of_torch_that_were_imported_by_name_know_the_worker_too",
        "test_map_datasets.py::test_worker_ids_are_torchs_also_for_a_dataset_that_asks_late",
        "test_workers.py::test_worker_info_has_the_workers_dataset_and_says_that_it_is_of_a_thread",
        note="for each thread, also if the function was imported by name",
    ),
    held(
        WORKERS,
        "torch.set_num_threads(1)",
        "in each worker, so that they do not compete",
        "test_workers.py::test_ids_seeds_and_thread_counts_are_those_of_torchs_workers",
        "loader/test_python_part_threads.py::test_torch_computes_with_one_thread_in_ours_and_as_before_in_others",
        note="if torch keeps that number per thread; other threads keep theirs",
    ),
    held(
        WORKERS,
        "modes and context of the thread that iterates",
        "a forked worker starts with its grad mode, inference mode, autocast, NumPy's errstate, decimal context and "
        "context variables, and changes only its own copies",
        "test_workers.py::test_workers_have_the_modes_and_the_context_of_the_thread_that_iterates",
        "test_workers.py::test_init_functions_have_them_too",
        "test_workers.py::test_what_a_worker_changes_of_them_is_its_own_and_stays",
        "test_workers.py::test_batches_of_workers_begun_in_inference_mode_may_be_trained_with_outside_of_it",
        note="except its default device, which is the CPU in these threads",
    ),
    deviated(
        WORKERS,
        "the contents of a batch",
        "objects that can be sent to another process; with anything else the program hangs",
        "anything: a batch stays in its process",
        "test_deviations.py::test_batches_need_not_be_pickled",
        "test_collation.py::test_what_workers_cannot_send_comes_from_threads_as_without_workers",
        "test_worker_errors.py::test_an_error_that_cannot_be_pickled_is_raised_where_torch_waits_for_ever",
    ),
    # ---- errors and ends -------------------------------------------------------------------------------------------
    held(
        ERRORS,
        "an exception in the data set or collate_fn",
        'the same type, its text after "Caught X in DataLoader worker process i." and the traceback; '
        "a KeyError keeps its newlines, `message=` is used, types that take no text become RuntimeError",
        "test_worker_errors.py::test_every_kind_of_error_is_raised_as_torch_raises_it",
        "test_worker_errors.py::test_a_group_of_errors_is_what_torch_makes_of_it_with_the_group_as_cause",
        "test_worker_errors.py::test_an_error_of_collate_costs_its_batch_alone",
        "test_map_datasets.py::test_an_error_has_the_original_as_its_cause_with_the_users_frames",
        note='"worker thread i"; the original is its `__cause__`',
    ),
    deviated(
        ERRORS,
        "an image file that cannot be loaded natively",
        "the error of the system or of Pillow, which may not name the file",
        "a SampleError that names path, index and stage, and is of the original's type too",
        "test_iteration.py::test_a_bad_file_costs_its_own_batch_and_no_other",
        "faults/test_files.py::test_a_vanished_file_is_a_file_not_found_error_of_stage_open",
        "loader/test_python_part_errors.py::test_a_sample_error_of_the_python_part_says_where_and_is_caught_as_what_was_raised",
    ),
    held(
        ERRORS,
        "after an exception",
        "the next call gives the next batch",
        "test_iteration.py::test_bad_keys_cost_their_own_batch_and_no_other",
        "test_map_datasets.py::test_an_error_has_torchs_type_and_text_and_costs_its_own_batch_alone",
        "test_iterable_datasets.py::test_an_error_in_the_stream_is_torchs_and_its_stream_ends",
        *_RANDOM_CASES,
    ),
    held(
        ERRORS,
        "an exception of the sampler",
        "raised by the call that requests the key, ahead of the batch",
        "test_iteration.py::test_a_failing_sampler_fails_at_the_same_step",
        *_RANDOM_CASES,
    ),
    deviated(
        ERRORS,
        "StopIteration in a map-style data set or collate_fn",
        "silently ends the epoch, and loses the remaining samples",
        "a RuntimeError that names the index; the epoch goes on",
        "test_deviations.py::test_stop_iteration_of_a_sample_ends_torchs_epoch_without_a_word_and_is_an_error_here",
        "test_map_datasets.py::test_stop_iteration_does_not_end_an_epoch_without_a_word",
        "test_iterable_datasets.py::test_stop_iteration_of_iter_itself_is_no_silent_end",
    ),
    deviated(
        ERRORS,
        "KeyboardInterrupt, SystemExit, GeneratorExit in the data set",
        "end the worker process, and the epoch with it: a RuntimeError or an error of the connection",
        "no process ends: the exception itself is raised, and the next call gives the next batch",
        "test_worker_errors.py::test_what_ends_torchs_worker_is_raised_as_it_is_and_the_epoch_goes_on",
    ),
    deviated(
        ERRORS,
        "Ctrl-C, and other exceptions of signal handlers",
        "raised in the program, but ignored while an iterator is dropped; batches may be lost, and if it ends a "
        "sampler, the epoch ends silently; workers end with the iterator",
        "the same within 200 ms of any wait, and after a drop; no batch is lost, and if it ends your sampler early, a "
        "RuntimeError says so",
        "faults/test_lifecycle.py::test_ctrl_c_is_seen_within_200_ms_and_the_process_ends_within_a_second",
        "faults/test_python_part_lifecycle.py::test_ctrl_c_in_next_is_seen_within_200_ms_and_the_process_ends_soon",
        "faults/test_python_part_lifecycle.py::test_an_interrupt_at_any_line_of_next_loses_and_changes_no_batch",
        "faults/test_signal_exceptions.py::test_exceptions_at_random_moments_cost_and_change_no_batch",
        "faults/test_signal_exceptions.py::test_a_sampler_that_an_exception_has_ended_makes_no_short_epoch",
        "faults/test_dropped_iterators.py::test_a_press_at_any_line_reaches_the_program_and_the_state_is_whole",
    ),
    deviated(
        ERRORS,
        "next() inside next()",
        "called by the data set, collate_fn or a signal handler, it gives a later batch, or hangs",
        "ValueError, as for a generator that is already executing; no batch is lost",
        "faults/test_nested_next.py::test_next_inside_of_next_is_an_error_and_costs_no_batch",
    ),
    Row(
        ERRORS,
        "death of a worker",
        "RuntimeError that a worker exited unexpectedly",
        NOT_APPLICABLE,
        "there is no worker process to die; if the system refuses a thread, iter() raises an error",
        ("faults/test_refused_threads.py::test_a_limit_on_threads_is_an_error_until_it_is_raised",),
    ),
    deviated(
        ERRORS,
        "fork while an iterator runs",
        "the child has queues whose other end is the parent's, and may hang",
        "the iterator raises at once in the child; iter() on its loader gives the child its own",
        "faults/test_native_lifecycle.py::test_a_forked_child_is_refused_at_once_and_the_parent_goes_on",
        "environments/test_processes.py::test_an_iterator_is_refused_in_a_forked_child_which_then_starts_its_own",
    ),
    held(
        ERRORS,
        "end of the interpreter",
        "ends persistent workers",
        "faults/test_lifecycle.py::test_the_interpreter_exits_within_a_second_and_without_a_word",
        note="within a second, whatever the threads do",
    ),
    # ---- random numbers --------------------------------------------------------------------------------------------
    held(
        RANDOM,
        "base seed",
        "one int64 at each iter(), also without workers, from `generator` or the default generator",
        "test_draws.py::test_generators_are_where_torch_leaves_them_after_every_step",
        *_RANDOM_CASES,
    ),
    held(
        RANDOM,
        "random sampler without generator",
        "draws its seed from the default generator: with workers at iter(), without at the first batch",
        "test_draws.py::test_generators_are_where_torch_leaves_them_after_every_step",
        "test_iteration.py::test_samplers_give_torchs_batches_and_lengths",
    ),
    held(
        RANDOM,
        "random sampler with generator",
        "the base seed first, then the permutation",
        "test_draws.py::test_generators_are_where_torch_leaves_them_after_every_step",
    ),
    held(
        RANDOM,
        "torch's generator in a worker",
        "seeded with base seed + id",
        *_EPOCHS,
        "test_workers.py::test_init_functions_that_seed_torch_seed_the_workers_as_in_torch",
        "loader/test_torch_random.py::test_training_equals_torch_for_any_number_of_workers",
        note="torch's functions draw from it in its thread, ordinary dropout included; the exceptions draw inside C++ "
        'and take no generator: see "Some draws use the program\'s generator" above',
    ),
    held(
        RANDOM,
        "Python's random and NumPy's generator in a worker",
        "copies, seeded for the worker; the program's are not touched",
        "test_workers.py::test_an_init_function_seeds_its_workers_three_generators_and_not_the_programs",
        *_RANDOM_CASES,
        note="however a program has imported or stored their functions; docs/environments.md lists the changes in the "
        "process meanwhile",
    ),
    held(
        RANDOM,
        "dependence on num_workers",
        "worker k mod N draws for batch k, so another number of workers gives other augmentations",
        "loader/test_torch_random.py::test_training_equals_torch_for_any_number_of_workers",
        "test_map_datasets.py::test_three_epochs_are_torchs_to_the_byte",
        note='`rng="sample"` does not depend on it',
    ),
    held(
        RANDOM,
        "epochs of persistent workers",
        "later epochs draw no base seed, and continue the workers' generators",
        "test_draws.py::test_generators_are_where_torch_leaves_them_after_every_step",
        "test_map_datasets.py::test_settings_change_as_much_as_they_do_in_torch",
        "loader/test_torch_random.py::test_a_persistent_epoch_that_was_left_early_has_drawn_as_torch_has",
    ),
    held(
        RANDOM,
        "iter(sampler)",
        "called twice an epoch with workers, once without",
        "test_draws.py::test_samplers_are_asked_as_often_and_as_early_as_torch_asks",
    ),
    # ---- collation -------------------------------------------------------------------------------------------------
    *(
        held(
            COLLATION,
            name,
            torch,
            "test_collation.py::test_every_kind_of_sample_becomes_what_torch_makes_of_it",
            *tests,
        )
        for name, torch, *tests in (
            ("tensors", "stacked; nested and sparse ones are errors"),
            ("arrays", "tensors, stacked; text or objects are a TypeError"),
            ("numbers", "tensors: float64 for float, int64 for int, bool for bool, NumPy's numbers keep their type"),
            ("str and bytes", "a list of them, unchanged"),
            (
                "mappings",
                "the keys of the first sample; others are dropped, missing ones are a KeyError; copied and updated, "
                "else constructed, else a dict",
            ),
            ("tuples and namedtuples", "a list, and the same type"),
            ("other sequences", "copied and filled, else constructed, else a list"),
            (
                "ragged sequences",
                "RuntimeError",
                "test_collation.py::test_errors_of_collation_have_torchs_words",
            ),
            (
                "None, sets, dataclasses, complex",
                "TypeError that names the type",
                "test_collation.py::test_errors_of_collation_have_torchs_words",
            ),
        )
    ),
    deviated(
        COLLATION,
        "storage of batches",
        "can be resized in place without workers, not with workers",
        "for native batches it never can",
        "test_deviations.py::test_native_batches_cannot_be_resized_in_place_without_workers_either",
    ),
    deviated(
        COLLATION,
        "memory of batches that workers collate",
        "shared between processes",
        "ordinary memory, because there is one process",
        "loader/test_python_part_threads.py::test_batches_are_not_made_in_memory_shared_between_processes",
    ),
    held(
        COLLATION,
        "default_collate_fn_map",
        "functions registered in it are called",
        "test_collation.py::test_functions_in_the_registry_are_called",
        "test_obstacles.py::test_a_collate_function_registered_for_what_a_batch_holds_is_honoured",
    ),
    # ---- pinning ---------------------------------------------------------------------------------------------------
    held(
        PINNING,
        "pinned objects",
        "tensors, objects with `.pin_memory()`, and these in containers; all else is passed through",
        "test_collation.py::test_batches_are_pinned_as_torch_pins_them",
        "test_collation.py::test_images_that_python_ends_are_pinned_where_that_is_asked_for",
        note="tested on a fake accelerator",
    ),
    deviated(
        PINNING,
        "the pinning thread",
        "a thread of its own, which all batches pass through; its errors say so",
        "the thread that makes the batch; native batches are allocated page-locked. An error names the worker",
        "test_collation.py::test_batches_are_pinned_as_torch_pins_them",
        "loader/test_python_part_threads.py::test_batches_are_pinned_where_there_is_an_accelerator",
    ),
    # ---- distributed -----------------------------------------------------------------------------------------------
    held(
        DISTRIBUTED,
        "DistributedSampler",
        "permutation of seed + epoch, padded or cut to equal steps, strided by rank",
        "test_subclasses.py::test_a_distributed_sampler_gives_each_rank_torchs_lists_and_equal_steps",
        "test_iteration.py::test_set_epoch_of_a_distributed_sampler_is_followed",
    ),
    deviated(
        DISTRIBUTED,
        "a sharded sampler of fastload's own",
        "none",
        "ShardedSampler: torch's lists, and a state that any number of ranks can resume from",
        "unit/test_shards.py::test_lists_are_those_of_a_distributed_sampler",
        "unit/test_shards.py::test_any_other_ranks_go_on_with_exactly_what_is_left",
    ),
    held(
        DISTRIBUTED,
        "loaders rebuilt from their attributes",
        "frameworks read the signature and the attributes, and call the class with them",
        "test_objects.py::test_frameworks_can_make_it_again_from_its_attributes",
        "test_objects.py::test_every_argument_is_an_attribute_of_its_name",
        "test_objects.py::test_it_is_torchs_dataloader",
    ),
)


_HEAD = """# The contract of torch's DataLoader

## Differences from torch

torch's workers are processes; fastload's are threads of your own process. Nothing is pickled, sent or restarted. For
any data set batches, errors and the program's random numbers afterwards equal those with torch 2.13 and forked
workers. All differences follow from the threads:

- **Large objects are shared**, to save memory: arrays and tensors above 16 MiB, or above 64 MiB a worker together;
  beyond 100,000 objects also the elements of containers of more than 10,000. All workers see a change to them. A
  warning names an array that was changed.
- **Objects that cannot be copied are shared**: locks, open files, sockets, connections, running generators, sparse
  tensors, exceptions and loggers; from Python 3.14 on also the iterators of `itertools`. `explain()` names those that
  matter, with reason and remedy: `fastload.per_thread(open_it)` gives each thread its own handle, `thread_safe=False`
  lets one thread at a time ask the data set.
- **Objects found by name are shared**: modules, classes and their attributes, global variables, a method's closure. A
  warning names the ones that the data set's own code rebinds, and generators there that it can draw from, also inside
  objects: a transform with a state belongs in the data set.
- **Process settings hold for all threads**, whichever thread makes them: `torch.set_default_dtype`, `os.environ`,
  `warnings` filters, `PIL.Image.MAX_IMAGE_PIXELS`, `cv2.setNumThreads`. `signal.signal` works only in the main
  thread; `multiprocessing.current_process()` is the program's.
- **The current directory is a thread's own if the system allows it**, as it is a process's: `os.chdir` in the program
  does not move the workers, and workers do not move each other. Containers may refuse `unshare`, as Docker's default
  profile does; then Python code in a thread has the program's directory, while native code still looks files up in
  the program's directory at `iter()`.
- **Some objects belong to one thread**: an SQLite connection that the program has opened, the seed of OpenCV's
  generator. Make them in `worker_init_fn` or with `per_thread`.
- **Some draws use the program's generator**: dropout in recurrent layers and in attention, alpha and feature dropout
  (`dropout2d`), `rrelu` and `native_dropout`, which draw inside C++ and take no generator; scripted and compiled
  functions, `torch.ops`, and draws in threads that the data set starts itself. A data set that runs such layers draws
  as in torch with `workers="processes"`.
- **A batch is not sent**: it may hold objects that cannot be pickled, and if the worker keeps a part of it, that is
  the same object.
- **Errors cost less**: an image that cannot be loaded is a `SampleError` that names its file, `StopIteration` in a
  data set is an error and not a silent end, and an exception from a signal handler, such as Ctrl-C or a time limit,
  loses no batch: call `next()` again. Exceptions: inside `device_transform`, and with `num_workers=0` inside an
  iterable data set, the current batch is lost; a map-style data set is asked again there, and draws anew. A handler
  that runs between the return of `next(iterator)` and your assignment loses that batch too, as only Python itself
  could prevent; the head of a `for` has no such moment.
- **Python code runs in one thread at a time**: if your `__getitem__` spends its time in Python code, processes are
  faster. `explain()` says so, and `workers="processes"` runs torch's own, to which nothing in this list applies.

## Row by row

Each row has one thing that a program may rely on, torch's behaviour, whether `fastload.DataLoader` does the same, and
the tests that show it. Most tests run torch's loader too, and cover native batches, batches that end in Python, and
other data sets if these could differ; tests in `tests/faults` and tests of fastload's own features run fastload
alone.
"""


def document() -> str:
    """Returns the text of docs/dataloader-contract.md."""
    counts = {verdict: sum(row.verdict == verdict for row in ROWS) for verdict in (HELD, DEVIATED, NOT_APPLICABLE)}
    lines = [
        _HEAD,
        f"{counts[HELD]} rows are held, {counts[DEVIATED]} deviated from on purpose, {counts[NOT_APPLICABLE]} are not "
        "applicable.",
        "",
        "Made by `python tests/contract/rows.py`; a test compares.",
    ]
    for section in SECTIONS:
        lines += ["", f"## {section}", "", "| | torch | fastload | tests |", "|---|---|---|---|"]
        lines += [_line(row) for row in ROWS if row.section == section]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    verdict = f"**{row.verdict}**" if row.verdict != HELD else row.verdict
    tests = ", ".join(f"`{name}`" for name in dict.fromkeys(row.tests))
    return f"| {row.name} | {row.torch} | {verdict}{': ' + row.reason if row.reason else ''} | {tests} |"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
