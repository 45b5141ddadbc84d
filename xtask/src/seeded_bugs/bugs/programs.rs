//! The bugs that tests of whole programs, of simulations, of services and of load tests catch.

use super::{Bug, bug, program_bug};

const HOUR: &str = "of_a_thousand_lives_each_is_exported_whole_or_not_and_a_calm_hour_leaves_no_span_open";

pub(super) const BUGS: &[Bug] = &[
    program_bug(
        "ready_before_serving",
        "packaging::started::a_control_plane_is_started_when_it_serves_and_keeps_its_state_through_a_kill",
    ),
    bug(
        "anybody_dials_through_the_tunnel",
        "oarlock-service-konnectivity-server",
        None,
        "a_socket_with_authorities_admits_only_clients_with_their_certificates",
    ),
    bug(
        "part_holds_an_authority",
        "oarlock-service-apiserver",
        None,
        "no_part_holds_the_key_of_an_authority_nor_anothers",
    ),
    bug(
        "tunnel_admits_the_cluster",
        "oarlock-service-apiserver",
        None,
        "the_tunnels_server_and_its_agents_know_each_other_by_an_authority_of_their_own",
    ),
    program_bug(
        "hosted_authority_replaced",
        "chart::secrets::keys_are_made_once_and_only_what_another_flag_concerns_is_renewed",
    ),
    bug("life_sampled_by_half", "oarlock-tests-sim", None, HOUR),
    program_bug("answer_before_fsync", "faults::embedded::an_api_server_that_is_killed_again_and_again_keeps_its_word"),
    bug(
        "restart_before_termination",
        "oarlock-tests-sim",
        None,
        "an_actor_that_hangs_is_killed_and_replaced_only_after_its_termination",
    ),
    program_bug("ready_while_stopping", "rolling::ending::a_server_says_that_it_goes_and_serves_on_for_the_delay"),
    bug(
        "figures_direction_forgotten",
        "oarlock-loadtests",
        None,
        "a_rate_is_worse_when_it_falls_and_a_time_when_it_rises",
    ),
    // The same bug also proves that the seeds can fail.
    bug("arbiter_trusts_shards", "oarlock-tests-sim", None, "shards_bind_every_pod_once_and_break_no_constraint"),
    bug(
        "room_given_back_on_lost_answer",
        "oarlock-tests-sim",
        None,
        "shards_bind_every_pod_once_and_break_no_constraint",
    ),
    // The bug proves that the seeds can fail; any bug of the store would do.
    bug("watch_outlives_hole", "oarlock-tests-sim", None, "seeds_of_faults_break_no_rule"),
    bug(
        "stale_negative",
        "oarlock-service-apiserver",
        Some("all"),
        "nothing_is_missing_that_another_server_acknowledged",
    ),
    bug("allocator_in_memory", "oarlock-service-apiserver", Some("all"), "an_address_is_given_once_whoever_gives_it"),
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
    // The same bug also proves that the seeds can fail.
    bug(
        "cloud_moves_on_suspicion",
        "oarlock-tests-sim",
        None,
        "what_reaches_a_cloud_is_done_once_whatever_becomes_of_who_holds_the_unit",
    ),
    bug(
        "cloud_claim_outlives_lease",
        "oarlock-tests-sim",
        None,
        "what_reaches_a_cloud_is_done_once_whatever_becomes_of_who_holds_the_unit",
    ),
    program_bug("initial_events_never_end", "watch::alone::initial_events_end_with_the_bookmark"),
    program_bug("nobody_judges_silence", "mesh::policies::nothing_slips_through_while_those_who_judge_come_and_go"),
    // The same bug also proves that the pods are counted.
    bug(
        "unknown_create_repeated",
        "oarlock-tests-sim",
        None,
        "no_pod_is_made_twice_when_the_answer_to_its_create_is_lost",
    ),
    bug(
        "unseen_owner_forgotten",
        "oarlock-tests-sim",
        None,
        "who_depends_on_an_owner_that_no_watch_has_shown_goes_with_it",
    ),
    program_bug(
        "judge_believes_anybody",
        "mesh::attack::who_has_got_in_all_the_same_sees_no_secret_and_is_not_believed",
    ),
    bug("anybody_claims", "oarlock-service-apiserver", Some("all"), "who_may_not_hold_claims_writes_under_none"),
    program_bug(
        "token_without_admission",
        "bad_input::subresources::a_kubelet_gets_tokens_for_its_own_pods_and_their_audiences_only",
    ),
    program_bug("paths_open_the_snapshot", "bad_input::rights::the_right_to_every_path_is_no_right_to_every_object"),
    program_bug("answers_wait_for_ever", "hostile::answers::answers_that_nobody_reads_are_bounded_and_come_to_an_end"),
    program_bug("dry_eviction_spends", "bad_input::evictions::a_dry_eviction_spends_nothing_however_it_is_asked_for"),
];
