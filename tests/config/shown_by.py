"""Tests that show the effects in docs/reference/settings.md: `file::function` below tests/ -> settings."""

from __future__ import annotations

_TESTS = {
    "config/test_layout.py::test_configured_directories_win_over_the_usual_ones": (
        "journal-directory bindings-directory paging-directory large-messages-directory"
    ),
    "store/test_node_lock.py::test_a_lock_directory_of_its_own_is_made": "node-manager-lock-directory",
    "store/test_journals.py::test_missing_directories_are_not_made_where_that_is_forbidden": (
        "create-journal-dir create-bindings-dir"
    ),
    "store/writing/test_unkept.py::test_it_works_and_is_gone_when_it_is_closed": "persistence-enabled",
    "store/test_node_lock.py::test_waiting": "journal-lock-acquisition-timeout",
    "store/test_journals.py::test_the_backend_is_the_one_asked_for": "journal-type journal-max-io",
    "store/test_settings_at_work.py::test_datasync": "journal-datasync",
    "store/writing/test_checksums.py::test_a_store_can_do_without": "journal-checksums",
    "store/writing/test_unsynced.py::test_a_write_returns_before_it_is_written": (
        "journal-sync-transactional journal-sync-non-transactional"
    ),
    "journal/test_writer.py::test_records_nobody_waits_for_are_written_after_the_timeout": (
        "journal-buffer-timeout"
    ),
    "store/test_settings_at_work.py::test_buffer_size_limits_a_record": "journal-buffer-size",
    "store/test_settings_at_work.py::test_direct_writes_align_to_the_block_size": (
        "journal-device-block-size"
    ),
    "store/test_journals.py::test_files_are_made_as_said": "journal-file-size",
    "store/test_settings_at_work.py::test_min_files": "journal-min-files",
    "store/test_settings_at_work.py::test_pool_files": "journal-pool-files",
    "journal/test_writer.py::test_a_fresh_journal_has_its_files": "journal-file-open-timeout",
    "store/test_settings_at_work.py::test_compaction_settings": (
        "journal-compact-min-files journal-compact-percentage"
    ),
    "store/test_settings_at_work.py::test_max_attic_files": "journal-max-attic-files",
    "store/writing/test_large_message_sync.py::test_a_body_is_synced_as_the_setting_says": (
        "large-message-sync"
    ),
    "store/writing/test_publishing.py::test_a_large_file_is_one_message_with_a_file_of_its_own": (
        "min-large-message-size"
    ),
    "store/test_inflated.py::test_the_setting_bounds_what_a_body_may_inflate_to": "inflate-bytes-max",
    "store/writing/test_retention.py::test_closed_files_are_copied": "journal-retention-directory",
    "journal/test_retention.py::test_old_copies_go": "journal-retention-period",
    "journal/test_retention.py::test_the_oldest_of_too_much_go": "journal-retention-max-bytes",
    "config/test_in_force.py::test_core": "id-cache-size page-sync-timeout persist-id-cache",
    "security/test_shares.py::test_who_waits_for_messages_takes_nobody_elses_places": (
        "user-waiting-max user-streams-max"
    ),
    "security/test_shares.py::test_open_files_have_a_share": "user-open-max",
    "security/test_shares.py::test_lists_of_many_moments_have_a_share_in_bytes": "user-open-bytes-max",
    "security/test_shares.py::test_selections_that_are_being_found_have_a_share": "user-selections-max",
    "security/test_shares.py::test_staged_names_have_a_share_of_inodes": "user-staged-files-max",
    "security/test_shares.py::test_staged_bytes_have_a_share": "user-staged-bytes-max",
    "store/writing/test_limits.py::test_a_full_address_refuses": "address-full-policy",
    "store/writing/test_limits.py::test_bytes_are_limited": "max-size-bytes",
    "store/writing/test_limits.py::test_dropped_messages_are_counted": "max-size-messages",
    "store/writing/test_limits.py::test_who_blocks_may_reject_from_a_threshold_on": (
        "max-size-bytes-reject-threshold"
    ),
    "store/writing/test_page_limits.py::test_pages_are_limited": "page-size-bytes page-limit-bytes",
    "store/writing/test_page_limits_exact.py::test_many_publishers_are_held_to_the_message": (
        "page-limit-messages"
    ),
    "store/writing/test_page_limits.py::test_a_limit_needs_a_policy_and_a_policy_a_limit": (
        "page-full-policy"
    ),
    "store/writing/test_settings_without_effect.py::test_of_an_address": (
        "max-read-page-bytes max-read-page-messages prefetch-page-bytes prefetch-page-messages "
        "default-group-first-key auto-create-queues auto-create-addresses page-max-cache-size "
        "drop-messages-when-full send-to-dla-on-no-route default-consumer-window-size "
        "queue-prefetch retroactive-message-count config-delete-queues config-delete-addresses "
        "config-delete-diverts auto-create-jms-queues auto-delete-jms-queues "
        "auto-create-jms-topics auto-delete-jms-topics redistribution-delay "
        "slow-consumer-threshold slow-consumer-threshold-measurement-unit "
        "slow-consumer-check-period slow-consumer-policy message-counter-history-day-limit "
        "management-browse-page-size management-message-attribute-size-limit "
        "enable-ingress-timestamp initial-queue-buffer-size"
    ),
    "store/writing/test_limits.py::test_all_addresses_together_are_limited": (
        "global-max-size global-max-messages"
    ),
    "store/writing/test_limits.py::test_publishers_wait_for_the_disk_and_others_go_on": (
        "max-disk-usage min-disk-free"
    ),
    "store/writing/test_limits.py::test_the_disk_is_looked_at_now_and_then": "disk-scan-period",
    "store/writing/test_paging.py::test_the_folder_may_go_when_nothing_is_in_pages": "purge-page-folders",
    "store/writing/test_expiring.py::test_it_happens_by_itself_once_a_period": ("message-expiry-scan-period"),
    "store/writing/test_expiring.py::test_what_is_over_goes_to_the_expiry_address": "expiry-address",
    "store/writing/test_expiring.py::test_every_framing_gets_the_delay": "expiry-delay",
    "store/writing/test_expiring.py::test_rules": "min-expiry-delay max-expiry-delay no-expiry",
    "store/writing/test_forwarding.py::test_queues_that_are_made_for_them": (
        "auto-create-expiry-resources expiry-queue-prefix expiry-queue-suffix "
        "auto-create-dead-letter-resources dead-letter-queue-prefix dead-letter-queue-suffix"
    ),
    "store/writing/test_forwarding.py::test_a_core_message": "dead-letter-address",
    "store/writing/test_queue_kinds.py::test_queues_that_are_made_of_this_kind": (
        "default-last-value-queue default-last-value-key default-ring-size "
        "default-non-destructive default-exclusive-queue"
    ),
    "store/writing/test_settings.py::test_new_queues_where_both_kinds_are_allowed": (
        "default-queue-routing-type"
    ),
    "store/writing/test_settings.py::test_new_addresses_get_it": "default-address-routing-type",
    "store/writing/test_settings.py::test_new_queues_get_it": (
        "default-max-consumers default-purge-on-no-consumers default-consumers-before-dispatch "
        "default-delay-before-dispatch default-group-buckets default-group-rebalance "
        "default-group-rebalance-pause-dispatch"
    ),
    "store/writing/test_settings.py::test_queues_may_take_turns": "routing-type",
    "store/writing/test_settings.py::test_a_filter_decides_what_a_queue_gets": "filter",
    "store/writing/test_delivering.py::test_as_many_readers_as_the_queue_allows": "max-consumers",
    "store/writing/test_delivering.py::test_a_queue_may_get_nothing": "purge-on-no-consumers enabled",
    "store/writing/test_delivering.py::test_an_exclusive_queue_has_one_reader_at_a_time": "exclusive",
    "store/writing/test_queue_kinds.py::test_a_new_value_takes_the_place_of_the_old": "last-value",
    "store/writing/test_queue_kinds.py::test_a_key_of_its_own": "last-value-key",
    "store/writing/test_delivering.py::test_a_queue_that_keeps_what_it_delivers": "non-destructive",
    "store/writing/test_queue_kinds.py::test_a_ring_keeps_so_many": "ring-size",
    "store/writing/test_delivering.py::test_a_queue_may_wait_for_readers": (
        "consumers-before-dispatch delay-before-dispatch"
    ),
    "store/writing/test_delivering.py::test_groups_may_share_buckets": "group-buckets",
    "store/writing/test_delivering.py::test_groups_may_be_shared_out_anew": "group-rebalance",
    "store/writing/test_delivering.py::test_and_wait_for_what_others_have": (
        "group-rebalance-pause-dispatch"
    ),
    "store/writing/test_settings_without_effect.py::test_of_a_queue": "group-first-key",
    "store/writing/test_delivering.py::test_a_paused_queue_delivers_nothing": "paused",
    "store/writing/test_auto_deleting.py::test_a_queue_goes_after_its_last_consumer": (
        "auto-delete auto-delete-delay auto-delete-created-queues auto-delete-queues-delay"
    ),
    "store/writing/test_auto_deleting.py::test_messages_may_go_with_it": (
        "auto-delete-message-count auto-delete-queues-message-count"
    ),
    "store/writing/test_settings.py::test_what_nobody_sets": (
        "auto-created configuration-managed internal user"
    ),
    "store/writing/test_settings.py::test_what_kinds_of_queues_an_address_allows": "routing-types",
    "store/writing/test_auto_deleting.py::test_it_happens_by_itself_once_a_period": (
        "address-queue-scan-period"
    ),
    "store/writing/test_auto_deleting.py::test_an_address_goes_after_its_last_queue": (
        "auto-delete-queues auto-delete-addresses-delay"
    ),
    "store/writing/test_auto_deleting.py::test_what_needs_no_use": "auto-delete-queues-skip-usage-check",
    "store/writing/test_auto_deleting.py::test_opening_the_store_takes_addresses_without_queues": (
        "auto-delete-addresses"
    ),
    "store/writing/test_auto_deleting.py::test_an_address_that_needs_no_use": (
        "auto-delete-addresses-skip-usage-check"
    ),
    "store/writing/test_delivering.py::test_too_many_attempts_end_at_the_dead_letter_address": (
        "max-delivery-attempts"
    ),
    "store/writing/test_delivering.py::test_the_next_attempt_waits_longer_and_longer": (
        "redelivery-delay redelivery-delay-multiplier max-redelivery-delay"
    ),
    "store/writing/test_delivering.py::test_delays_may_be_spread": ("redelivery-collision-avoidance-factor"),
    "store/writing/test_delivering.py::test_only_so_many_attempts_are_recorded": "max-redelivery-records",
    "store/writing/test_delivering.py::test_attempts_may_be_counted_before": (
        "persist-delivery-count-before-delivery"
    ),
    "security/test_selections.py::test_selections_share_one_budget_and_are_found_again": (
        "selection-memory-bytes"
    ),
    "writing/test_made_again_as_it_was.py::test_a_queue_made_again_has_the_settings_that_it_had": (
        "removed-keep-s"
    ),
    "store/writing/test_bringing_back.py::test_no_more_is_kept_than_settings_say": "removed-keep-bytes",
    "store/test_metrics.py::test_addresses_may_be_left_out": "enable-metrics",
    "store/writing/test_limits.py::test_management_is_never_held_up": "management-address",
    "tables/test_settings.py::test_what_a_database_store_says": (
        "jdbc-connection-url jdbc-driver-class-name jdbc-user jdbc-password "
        "jdbc-lock-renew-period jdbc-lock-acquisition-timeout jdbc-journal-sync-period"
    ),
    "tables/test_lease.py::test_clocks_that_differ_are_told": "jdbc-allowed-time-diff",
    "tables/test_writing.py::test_pages_are_in_the_tables": (
        "jdbc-max-page-size-bytes jdbc-page-max-size-bytes"
    ),
    "tables/test_settings.py::test_properties_of_a_data_source": (
        "data-source-properties data-source-property"
    ),
    "tables/test_settings.py::test_tables_have_the_names_that_are_set": (
        "bindings-table-name message-table-name large-message-table-name page-store-table-name "
        "node-manager-store-table-name"
    ),
    "tables/test_writing.py::test_a_restart_of_the_database_is_waited_for": "jdbc-network-timeout",
    "tables/test_lease.py::test_a_lease_that_ran_out_is_free_and_its_holder_writes_no_more": (
        "jdbc-lock-expiration"
    ),
    "older/test_amq.py::test_what_the_old_consumers_got": (
        "directory useNIO persistentIndex indexBinSize indexKeySize indexPageSize"
    ),
    "older/test_written.py::test_nothing_durable_is_missing_after_a_kill": "syncOnWrite",
    "broker/test_interop_amq.py::test_activemq_delivers_what_a_mount_left": "maxCheckpointMessageAddSize",
    "older/test_written.py::test_data_logs_are_as_long_as_configured_and_go_when_nothing_in_them_is_needed": (
        "maxFileLength cleanupInterval directoryArchive archiveDataLogs"
    ),
}

SHOWN_BY = {name: test for test, names in _TESTS.items() for name in names.split()}
"""Setting -> test."""
