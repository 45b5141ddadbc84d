//! Which bugs are planted, and what catches each.

/// A forbidden bug and the test that must fail with it, and pass without.
pub(crate) struct Bug {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    /// `--test` target of the package; none: a test inside its library.
    pub(crate) suite: Option<&'static str>,
    pub(crate) test: &'static str,
}

const fn bug(name: &'static str, package: &'static str, suite: Option<&'static str>, test: &'static str) -> Bug {
    Bug { name, package, suite, test }
}

/// A bug in the program that a test of whole programs starts.
const fn program_bug(name: &'static str, test: &'static str) -> Bug {
    Bug { name, package: "oarlock-tests-integration", suite: Some("all"), test }
}

pub(crate) const BUGS: &[Bug] = &[
    bug("access_is_not_reviewed", "oarlock-serving", None, "metrics_are_for_whom_the_api_server_lets_see_them"),
    bug("answer_before_fsync", "oarlock-storage", Some("all"), "a_thousand_power_losses_lose_nothing_acknowledged"),
    program_bug("answer_before_fsync", "faults::embedded::an_api_server_that_is_killed_again_and_again_keeps_its_word"),
    bug(
        "policy_denial_forgotten",
        "oarlock-admission",
        Some("all"),
        "what_a_validation_says_becomes_text_reason_and_code",
    ),
    bug("cel_without_limit", "oarlock-cel", Some("all"), "limits::expressions_share_one_budget_and_have_a_limit_each"),
    bug(
        "retry_unknown_write",
        "oarlock-client",
        Some("all"),
        "a_write_is_not_repeated_when_its_outcome_is_unknown_and_a_read_is",
    ),
    bug(
        "restart_before_termination",
        "oarlock-tests-sim",
        None,
        "an_actor_that_hangs_is_killed_and_replaced_only_after_its_termination",
    ),
    bug("read_undurable", "oarlock-store", Some("all"), "nobody_sees_a_write_before_it_is_durable"),
    bug("watch_skips_event", "oarlock-store", Some("all"), "every_watcher_gets_what_a_naive_filter_gives_or_one_gone"),
    bug(
        "relist_keeps_deleted",
        "oarlock-informer",
        None,
        "an_expired_revision_replaces_the_state_and_reports_what_went_missing",
    ),
    bug("watch_resumes_late", "oarlock-informer", None, "a_broken_stream_is_resumed_from_the_last_revision"),
    program_bug("ready_while_stopping", "rolling::ending::a_server_says_that_it_goes_and_serves_on_for_the_delay"),
    bug("feed_over_a_gap", "oarlock-informer", None, "a_cache_that_is_told_shows_at_each_revision_what_the_server_had"),
    bug("two_workers_one_key", "oarlock-informer", None, "at_most_so_many_workers_run_and_never_two_on_one_key"),
    bug("own_writes_unseen", "oarlock-informer", None, "a_key_is_not_decided_again_before_its_own_writes_show"),
    bug("arbiter_trusts_shards", "oarlock-scheduler", None, "the_arbiter_accepts_exactly_what_the_oracle_allows"),
    // And the seeds can fail for it.
    bug("arbiter_trusts_shards", "oarlock-tests-sim", None, "shards_bind_every_pod_once_and_break_no_constraint"),
    bug(
        "arbiter_without_catch_up",
        "oarlock-scheduler",
        None,
        "a_unit_is_acted_for_when_the_caches_have_come_past_its_epoch",
    ),
    bug(
        "restart_without_catch_up",
        "oarlock-scheduler",
        None,
        "the_room_of_a_binding_that_it_has_not_seen_is_not_given_away",
    ),
    bug("restart_without_catch_up", "oarlock-scheduler", None, "what_it_bound_last_is_certain_before_it_decides_again"),
    bug(
        "room_given_back_on_lost_answer",
        "oarlock-scheduler",
        None,
        "a_binding_that_arrives_after_its_answer_was_given_up_overfills_no_node",
    ),
    bug(
        "room_given_back_on_lost_answer",
        "oarlock-tests-sim",
        None,
        "shards_bind_every_pod_once_and_break_no_constraint",
    ),
    bug("told_without_claim", "oarlock-scheduler", None, "what_is_written_is_written_under_the_claim_that_it_is_for"),
    bug("told_of_any_revision", "oarlock-scheduler", None, "what_is_said_of_a_waiting_pod_is_not_said_of_a_bound_one"),
    bug("victims_unchecked", "oarlock-scheduler", None, "the_arbiter_looks_at_victims_again"),
    bug("nomination_ignored", "oarlock-scheduler", None, "room_that_victims_leave_is_kept_for_who_was_nominated"),
    bug(
        "nominated_at_any_revision",
        "oarlock-scheduler",
        None,
        "a_nomination_that_arrives_late_undoes_none_that_was_made_since",
    ),
    bug(
        "nomination_forgotten_half_way",
        "oarlock-scheduler",
        None,
        "a_preemption_that_stops_half_way_keeps_the_room_that_its_victims_leave",
    ),
    bug("late_proposal_accepted", "oarlock-scheduler", None, "a_proposal_for_another_epoch_is_not_looked_at"),
    bug("subpath_follows_links", "oarlock-kubelet", None, "directories_are_made_inside_the_volume_and_nowhere_else"),
    bug(
        "barrier_joined_in_flight",
        "oarlock-store",
        Some("all"),
        "most_recent_reads_share_barriers_that_began_after_they_arrived",
    ),
    bug(
        "load_beyond_its_revision",
        "oarlock-storage",
        Some("all"),
        "a_load_among_writes_and_compactions_says_how_far_it_has_come",
    ),
    bug("delete_claimed", "oarlock-store", Some("all"), "a_delete_is_acknowledged_to_one_caller"),
    bug(
        "lapsed_claim_credited",
        "oarlock-store",
        Some("all"),
        "a_write_that_was_lost_is_not_found_in_that_of_the_claims_next_holder",
    ),
    bug("watch_outlives_hole", "oarlock-store", None, "a_skip_ends_the_watches_that_missed_something_and_no_other"),
    // Any of the store's would do: this one shows that the seeds can fail.
    bug("watch_outlives_hole", "oarlock-tests-sim", None, "seeds_of_faults_break_no_rule"),
    bug("reload_goes_back", "oarlock-store", Some("all"), "a_reload_shows_no_older_state"),
    bug("cold_body_ages", "oarlock-store", Some("all"), "a_store_that_keeps_no_bodies_answers_as_one_that_does"),
    bug(
        "stale_negative",
        "oarlock-service-apiserver",
        Some("all"),
        "nothing_is_missing_that_another_server_acknowledged",
    ),
    bug("allocator_in_memory", "oarlock-service-apiserver", Some("all"), "an_address_is_given_once_whoever_gives_it"),
    bug(
        "batch_of_one_transaction",
        "oarlock-storage",
        Some("all"),
        "what_is_written_together_has_revisions_of_its_own",
    ),
    bug(
        "stale_unchanged",
        "oarlock-service-apiserver",
        Some("all"),
        "a_change_that_changes_nothing_is_not_answered_from_what_was",
    ),
    bug(
        "page_of_the_future",
        "oarlock-service-apiserver",
        Some("all"),
        "a_list_goes_on_at_a_server_that_has_not_heard_of_its_begin",
    ),
    bug("header_as_progress", "oarlock-storage", Some("all"), "keys_of_others_move_the_tail_on_and_nothing_else"),
    bug(
        "retry_after_unknown",
        "oarlock-storage",
        Some("all"),
        "a_write_that_is_not_answered_is_unknown_and_not_made_twice",
    ),
    bug("restored_revision_falls", "oarlock-storage", Some("all"), "after_a_restore_revisions_have_risen"),
    bug(
        "older_state_goes_on",
        "oarlock-storage",
        Some("all"),
        "after_an_older_state_of_etcd_revisions_go_on_above_the_newer",
    ),
    bug(
        "fence_from_cache",
        "oarlock-service-apiserver",
        Some("all"),
        "a_claim_that_has_gone_to_another_writes_nothing_whoever_knows",
    ),
    bug(
        "fence_from_cache",
        "oarlock-tests-sim",
        None,
        "units_move_under_faults_and_nothing_is_done_twice_or_left_undone",
    ),
    bug(
        "owner_without_catch_up",
        "oarlock-informer",
        None,
        "a_unit_is_worked_on_when_it_is_held_and_the_caches_show_its_epoch",
    ),
    bug(
        "suspicion_undamped",
        "oarlock-placement",
        None,
        "silence_moves_what_has_settled_and_nothing_that_has_just_come",
    ),
    bug(
        "cloud_moves_on_suspicion",
        "oarlock-placement",
        None,
        "what_reaches_outside_moves_when_its_holder_leaves_or_its_lease_has_run_out_and_for_nothing_else",
    ),
    // And the seeds can fail for it.
    bug(
        "cloud_moves_on_suspicion",
        "oarlock-tests-sim",
        None,
        "what_reaches_a_cloud_is_done_once_whatever_becomes_of_who_holds_the_unit",
    ),
    bug(
        "cloud_acts_unrenewed",
        "oarlock-mesh",
        None,
        "every_call_is_over_a_margin_before_the_lease_can_seem_to_have_run_out",
    ),
    bug("cloud_claim_outlives_lease", "oarlock-mesh", None, "a_renewal_that_is_answered_late_bridges_no_gap"),
    bug(
        "cloud_claim_outlives_lease",
        "oarlock-tests-sim",
        None,
        "what_reaches_a_cloud_is_done_once_whatever_becomes_of_who_holds_the_unit",
    ),
    bug("deaf_suspects_others", "oarlock-placement", None, "who_does_not_hear_itself_suspects_nobody_and_begins_anew"),
    bug(
        "unheard_believed",
        "oarlock-placement",
        None,
        "who_is_expected_and_never_heard_is_missed_when_it_could_have_come_back",
    ),
    bug("zeros_are_kept", "oarlock-codec", Some("all"), "protobuf_reads_as_json_does"),
    program_bug("initial_events_never_end", "watch::alone::initial_events_end_with_the_bookmark"),
    program_bug("nobody_judges_silence", "mesh::policies::nothing_slips_through_while_those_who_judge_come_and_go"),
    bug("job_counts_twice", "oarlock-controllers", None, "a_restart_after_any_write_counts_every_pod_once"),
    bug(
        "unseen_owner_forgotten",
        "oarlock-tests-sim",
        None,
        "who_depends_on_an_owner_that_no_watch_has_shown_goes_with_it",
    ),
    bug("secret_on_disk", "oarlock-kubelet", None, "what_is_secret_is_kept_in_memory"),
    bug("sender_by_its_word", "oarlock-bus", None, "nobody_speaks_as_another_where_the_subject_names_the_sender"),
    bug("any_epoch_will_do", "oarlock-mesh", Some("mesh"), "a_unit_answers_at_its_own_epoch_and_says_which_that_is"),
    bug("answer_anywhere", "oarlock-bus", Some("bus"), "nobody_is_made_to_speak_where_the_asker_likes"),
    bug("connection_mended", "oarlock-bus", Some("bus"), "what_a_dead_server_did_not_take_is_not_sent_to_the_next"),
    bug("expired_is_handled", "oarlock-bus", Some("bus"), "memory::what_expired_in_the_queue_is_not_handed_out"),
    bug("budget_ignores_queue", "oarlock-bus", Some("bus"), "memory::the_budget_shrinks_with_the_time_queued"),
    bug(
        "operator_looks_at_the_rest",
        "oarlock-meta",
        Some("all"),
        "work::a_selector_is_read_in_the_time_of_its_length",
    ),
    bug("digits_without_bound", "oarlock-meta", Some("all"), "work::a_quantity_is_read_in_the_time_of_its_length"),
    bug("managers_by_search", "oarlock-patch", Some("all"), "work::many_owners_of_an_object_are_looked_up"),
    bug("items_by_search", "oarlock-patch", Some("all"), "work::lists_merge_by_looking_their_items_up"),
    bug(
        "uniqueness_by_search",
        "oarlock-apis",
        Some("all"),
        "work::a_list_repeats_nothing_without_a_search_at_each_item",
    ),
    bug(
        "every_atom_is_listed",
        "oarlock-auth",
        None,
        "a_small_role_with_a_million_permissions_is_refused_without_listing_them_all",
    ),
    bug(
        "store_open_to_all",
        "oarlock-storage",
        None,
        "what_holds_objects_is_for_its_owner_alone_also_where_it_was_open_before",
    ),
];
