use std::time::Duration;

use http::{HeaderMap, Method, header};
use oarlock_telemetry::metrics::{Format, encode};
use prometheus_client::registry::Registry;

use super::super::labels::RequestLabels;
use super::*;
use crate::http::request_info;

fn of(method: &str, target: &str, agent: &str) -> RequestLabels {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let info = request_info::parse(&method, path, query).unwrap();
    let headers = HeaderMap::from_iter([(header::USER_AGENT, agent.parse().unwrap())]);
    RequestLabels::of(&method, &info, query, &headers)
}

fn text(table: &'static SeriesTable, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Requests(table)));
    encode(format, [&registry])
}

#[test]
fn families_have_upstreams_names_labels_and_bounds() {
    let table: &'static SeriesTable = Box::leak(Box::new(SeriesTable::new()));
    let half = Duration::from_millis(500);
    let trace = Some([("trace_id", "0af7651916cd43dd8448eb211c80319c".to_owned())]);
    table.answered(of("GET", "/api/v1/namespaces/x/pods", "a"), 200, half, (Some(5000), trace));
    table.answered(of("POST", "/api/v1/namespaces/x/pods?dryRun=All", "a"), 201, half, (Some(5000), None));
    table.answered(of("GET", "/readyz", "a"), 200, half, (None, None));
    table.answered(of("PUT", "/api/v1/nodes/y/status", "a"), 599, half, (None, None));
    table.terminated(of("GET", "/api/v1/namespaces/x/pods", "a"), 429);
    table.opened(of("GET", "/api/v1/pods?watch=1", "a"), 3);
    let text = text(table, Format::OpenMetrics);
    let pods = "group=\"\",version=\"v1\",resource=\"pods\",subresource=\"\"";
    let list = format!("verb=\"LIST\",{pods},scope=\"namespace\",component=\"apiserver\"");
    oarlock_testkit::metrics::has(&text, [
        format!("apiserver_request_total{{{list},dry_run=\"\",code=\"200\"}} 1"),
        format!(
            "apiserver_request_total{{verb=\"POST\",{pods},scope=\"resource\",component=\"apiserver\",dry_run=\"All\",code=\"201\"}} 1"
        ),
        "apiserver_request_total{verb=\"GET\",group=\"\",version=\"\",resource=\"\",subresource=\"/readyz\",scope=\"\",component=\"\",dry_run=\"\",code=\"200\"} 1".to_owned(),
        "apiserver_request_total{verb=\"PUT\",group=\"\",version=\"v1\",resource=\"nodes\",subresource=\"status\",scope=\"resource\",component=\"apiserver\",dry_run=\"\",code=\"other\"} 1".to_owned(),
        format!("apiserver_request_duration_seconds_bucket{{le=\"0.4\",{list},dry_run=\"\"}} 0"),
        format!("apiserver_request_sli_duration_seconds_bucket{{le=\"1.0\",{list}}} 1"),
        format!("apiserver_response_sizes_bucket{{le=\"10000.0\",{list}}} 1"),
        format!("apiserver_response_sizes_bucket{{le=\"1e+09\",{list}}} 1"),
        format!("apiserver_request_terminations_total{{{list},code=\"429\"}} 1"),
        format!("apiserver_longrunning_requests{{verb=\"WATCH\",{pods},scope=\"cluster\",component=\"apiserver\"}} 3"),
    ]);
    let exemplar = format!(
        "apiserver_request_duration_seconds_bucket{{le=\"0.6\",{list},dry_run=\"\"}} 1 # {{trace_id=\"0af7651916cd43dd8448eb211c80319c\"}} 0.5 "
    );
    assert!(text.lines().any(|line| line.starts_with(&exemplar)), "{text}");
    // Dry runs are no part of the service level.
    assert!(!text.contains("sli_duration_seconds_count{verb=\"POST\""), "{text}");
    oarlock_testkit::metrics::check(
        &text,
        &[
            "apiserver_request_total",
            "apiserver_request_duration_seconds",
            "apiserver_request_sli_duration_seconds",
            "apiserver_response_sizes",
            "apiserver_request_terminations_total",
            "apiserver_longrunning_requests",
        ],
    );
}

#[test]
fn no_client_adds_series() {
    let table: &'static SeriesTable = Box::leak(Box::new(SeriesTable::new()));
    let request = |number: u32| {
        for (method, target) in [
            ("GET", format!("/apis/group{number}.example/v{number}/namespaces/n/things/y")),
            ("POST", format!("/api/v1/namespaces/namespace-{number}/pods")),
            ("GET", format!("/apis/apps/v1/namespaces/n/resource{number}/y")),
            ("GET", format!("/path/{number}")),
            (&*format!("VERB{number}"), "/api/v1/namespaces/n/pods/y".to_owned()),
            ("DELETE", format!("/api/v1/namespaces/n/pods/pod-{number}?dryRun={number}")),
        ] {
            let labels = of(method, &target, &format!("agent/{number}"));
            let code = 600 + u16::try_from(number % 300).unwrap();
            table.answered(labels, code, Duration::from_millis(1), (Some(u64::from(number)), None));
            table.terminated(labels, 429);
        }
    };
    request(0);
    let series = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
    let one = series(&text(table, Format::Plain));
    (1..10_000).for_each(request);
    assert_eq!(series(&text(table, Format::Plain)), one);
}
