"""The security page promises nothing that no test holds."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.docs.pages import ROOT, prose

# Parts of the page that promise nothing.
OTHER_PARTS = ("Security", "Load untrusted files", "What is left to you")
# How each promise of the page begins, and the tests that hold it.
HELD_BY = {
    "Workers and the triggerer verify": """
        unit/client/test_client.py::test_an_unknown_certificate_is_refused
        unit/client/test_client.py::test_a_certificate_for_another_host_is_refused""",
    "only those of `ca_bundle`": """
        unit/client/test_client.py::test_a_ca_bundle_verifies_a_certificate
        unit/client/test_client.py::test_a_ca_bundle_from_the_environment_verifies_a_certificate""",
    "A `ca_bundle` that cannot be read": """
        unit/client/test_client.py::test_an_unreadable_ca_bundle_is_an_error_before_anything_is_sent
        unit/hooks/test_connection.py::test_verify_false_is_warned_about
        unit/hooks/test_connection.py::test_a_key_that_is_sent_unencrypted_is_warned_about""",
    "The package never follows a redirect": """
        integration/test_redirects.py::test_a_redirect_is_an_error_and_carries_no_key
        integration/test_redirects.py::test_cookies_of_the_service_are_not_stored
        integration/test_redirects.py::test_the_key_is_sent_in_the_header_only
        unit/client/test_api_key.py::test_without_a_right_key_the_error_says_what_the_connection_has_now""",
    "With https, a [proxy]": """
        unit/client/test_proxies.py::test_a_proxy_with_a_tunnel_gets_its_own_credentials_only
        unit/client/test_proxies.py::test_without_a_tunnel_the_proxy_gets_both_and_the_service_only_the_key
        unit/client/test_proxies.py::test_without_a_tunnel_nothing_was_sent
        unit/hooks/test_connection.py::test_a_proxy_that_reads_the_key_is_named_without_its_password
        integration/test_canary.py::test_a_night_behind_a_proxy_writes_no_secret
        system/test_secrets.py::test_the_proxy_gets_no_key""",
    "A faulty or hostile service": """
        integration/test_hostile_service.py::test_any_response_is_a_reply_or_an_error_of_this_package
        unit/api/test_hostile_replies.py::test_a_success_is_read_or_refused""",
    "Larger than `max_response_bytes`": """
        integration/test_hostile_service.py::test_ten_gigabytes_are_not_read
        unit/client/test_response_limits.py::test_reading_stops_at_the_limit""",
    "Compressed (gzip, deflate)": """
        unit/client/test_response_limits.py::test_a_gzip_bomb_is_never_unpacked
        unit/client/test_response_limits.py::test_a_body_that_cannot_be_decompressed_has_a_defect""",
    "Very slow": "integration/test_hostile_service.py::test_a_slow_response_times_out",
    "JSON nested more than": """
        unit/test_strict_json.py::test_what_is_too_deep_is_never_parsed
        unit/test_strict_json.py::test_the_number_of_values_is_limited_before_they_are_built
        unit/test_strict_json.py::test_a_small_reply_needs_little_memory_whatever_it_describes""",
    "JSON with NaN": """
        unit/test_strict_json.py::test_a_number_without_a_size_is_none
        unit/test_strict_json.py::test_half_a_character_and_nul_are_replaced
        unit/test_strict_json.py::test_the_text_has_only_numbers_that_every_database_takes""",
    "JSON in UTF-16": """
        unit/test_strict_json.py::test_a_byte_order_mark_says_the_encoding
        unit/test_strict_json.py::test_the_encoding_is_never_guessed""",
    "Bytes after the end": """
        unit/client/test_response_limits.py::test_reading_stops_at_the_end_of_the_compressed_data""",
    "Other types than expected": "unit/api/test_replies.py::test_any_json_is_read",
    "Invalid JSON": """
        integration/test_hostile_service.py::test_malformed_http_is_an_error
        integration/test_hostile_service.py::test_a_wrong_content_length_gives_no_partial_answer""",
    "Invalid `Retry-After`": "unit/api/test_hostile_replies.py::test_a_retry_after_is_a_bounded_time_or_none",
    "After such an error": "integration/test_lost_creates.py",
    "**Success status**": "unit/api/test_hostile_replies.py::test_a_create_whose_reply_is_too_large_has_happened",
    "**Error status**": "unit/api/test_hostile_replies.py::test_an_error_whose_page_is_too_large_is_that_error",
    "**Broken or late response**": "integration/test_lost_creates.py",
    "Texts of the service appear": """
        integration/test_hostile_service.py::test_the_service_cannot_forge_log_lines
        unit/api/test_call.py::test_the_content_type_cannot_forge_a_log_line
        unit/api/test_hostile_replies.py::test_a_message_of_megabytes_is_shortened""",
    "If the service repeats the key": """
        unit/client/test_redaction.py::test_a_body_in_another_encoding_is_decoded_first
        unit/client/test_redaction.py::test_a_key_that_is_escaped_several_times_does_not_stay
        unit/client/test_redaction.py::test_no_part_of_a_key_stays_where_a_body_is_cut
        unit/client/test_failures.py::test_neither_errors_nor_logs_quote_a_key_that_breaks_http
        unit/hooks/test_connection.py::test_a_key_that_looks_like_ordinary_text_is_warned_about""",
    "Reports of evaluations, findings": """
        unit/ui/test_access.py::test_the_tasks_of_other_dags_are_refused
        unit/ui/test_reports.py::test_a_path_is_not_taken_from_the_request""",
    "Only regular files are read": """
        unit/ui/test_files.py::test_what_is_not_a_file_of_findings_is_refused
        unit/ui/test_files.py::test_a_file_with_other_columns_or_of_another_dag_is_refused
        unit/ui/test_reports.py::test_only_a_report_of_this_dag_is_shown""",
    "Parquet files are read in": """
        unit/ui/test_files.py::test_what_a_file_unfolds_to_is_not_in_this_process
        unit/ui/test_files.py::test_a_file_that_takes_too_long_is_given_up""",
    "A page waits at most": """
        unit/ui/test_files.py::test_a_storage_that_hangs_stops_only_the_pages_of_its_dags
        unit/ui/test_files.py::test_other_routes_answer_while_a_storage_hangs""",
    "A result in XCom": """
        unit/ui/test_task_results.py::test_no_result_is_an_error_of_the_server
        unit/ui/test_task_results.py::test_results_are_read_with_the_backend_of_the_deployment""",
    "A report can neither": "unit/ui/test_reports.py::test_the_report_is_shown_and_can_do_nothing",
    "Without `allowed_root`": """
        unit/storage/test_paths.py::test_what_leads_outside_is_refused
        unit/storage/test_paths.py::test_what_lies_inside_is_found""",
    "Each time a file is opened": """
        unit/storage/test_allowed_root.py::test_no_file_from_outside_is_sent
        unit/storage/test_allowed_root.py::test_a_file_that_is_swapped_all_the_time_is_never_one_from_outside
        unit/storage/test_allowed_root.py::test_object_storage_is_compared_by_connection_and_names""",
    "A small file can unfold": """
        integration/test_large_files.py::test_small_files_that_unfold_to_gigabytes
        integration/test_large_files.py::test_documents_of_gigabytes_are_not_read""",
    "New files get mode 600": "unit/storage/test_private_files.py::test_modes_follow_the_umask",
    "Without `manage_documents`": """
        unit/operators/test_site_changes.py::test_the_connection_has_to_allow_it
        unit/operators/test_site_changes.py::test_a_mass_deletion_stops_before_it
        unit/operators/test_site_changes.py::test_documents_of_other_sources_stay
        unit/operators/test_site_changes.py::test_a_stale_document_waits_for_the_new_ones""",
    "Every change is in the ledger": "unit/operators/test_site_changes.py::test_the_ledger_has_each_change",
    "The paths of `manage_documents`": """
        unit/api/test_document_pages.py::test_routes_that_cannot_be_used_are_an_error_of_the_connection
        unit/api/test_document_pages.py::test_the_next_link_of_a_header""",
}  # fmt: skip


def promises() -> list[str]:
    """Return the paragraphs, bullets and rows of tables of the page that promise something."""
    found = []
    for part in prose(ROOT / "docs" / "operate" / "security.md").split("\n#"):
        heading, _, text = part.partition("\n")
        if heading.strip("# ") in OTHER_PARTS:
            continue
        # This list says what the package does not prevent.
        text = re.sub(r"^What remains possible:$(?:\n\n?(?:- |  ).*)+", "", text, flags=re.MULTILINE)
        for block in re.split(r"\n\n|\n(?=- |\| )", text):
            promise = re.sub(r"^(?:[-|]|1\.) ", "", block.strip())
            if promise and not promise.startswith(("Response |", "--")):
                found.append(promise)
    return found


@cache
def functions_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_promise_is_held_by_tests() -> None:
    unheld = [promise for promise in promises() if not promise.startswith(tuple(HELD_BY))]
    unknown = [begin for begin in HELD_BY if not any(promise.startswith(begin) for promise in promises())]
    assert (unheld, unknown) == ([], [])
    names = [name for names in HELD_BY.values() for name in names.split()]
    assert len(names) > 40
    for name in names:
        file, _, test = name.partition("::")
        assert not test or test in functions_in(file), name
