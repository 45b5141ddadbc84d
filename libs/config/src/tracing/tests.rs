//! What each variable does, and how file and variables go together.

use clap::Parser as _;

use super::*;
use oarlock_telemetry::traces::Ratio;

const AT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel:4318");

fn read(variables: &[(&str, &str)]) -> Tracing {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    TracingOptions::default().read_with("apiserver", variables).unwrap()
}

/// The export with these variables beside an endpoint; none of them gives a warning.
fn export(variables: &[(&str, &str)]) -> TracingExport {
    let tracing = read(&[&[AT][..], variables].concat());
    assert_eq!(tracing.warnings, [""; 0], "{variables:?}");
    tracing.export.unwrap()
}

#[test]
fn nothing_is_exported_without_an_endpoint() {
    assert_eq!(read(&[("HOME", "/root")]), Tracing { state: None, export: None, warnings: vec![] });
}

#[test]
fn an_endpoint_turns_the_export_on_with_the_defaults_of_the_specification() {
    let expected = TracingExport {
        protocol: OtlpProtocol::Http,
        endpoint: "http://otel:4318/v1/traces".to_owned(),
        headers: vec![],
        gzip: false,
        timeout: Duration::from_secs(10),
        authorities: None,
        sampler: Sampler::parent_based(Ratio::ALL),
        delay: Duration::from_secs(5),
        queue: 2048,
        batch: 512,
        resource: vec![("service.name".to_owned(), "apiserver".to_owned())],
    };
    assert_eq!(export(&[]), expected);
}

#[test]
fn either_switch_turns_the_export_off() {
    for (name, value) in [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none")] {
        assert_eq!(read(&[AT, (name, value)]).export, None, "{name}");
    }
    let states = [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")].map(|off| read(&[AT, off]).state);
    assert_eq!(states, [Some(TracingState::Off), None], "only the first one turns the recording off too");
    for (name, value) in [("OTEL_SDK_DISABLED", "no"), ("OTEL_TRACES_EXPORTER", "otlp")] {
        assert!(read(&[AT, (name, value)]).export.is_some(), "{name}");
    }
}

#[test]
fn the_flag_for_the_state_counts_before_an_endpoint_and_the_switch_before_the_flag() {
    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        options: TracingOptions,
    }
    let parse = |words: &[&str]| Program::try_parse_from(std::iter::once("x").chain(words.iter().copied()));
    for (word, state) in [("off", TracingState::Off), ("ring", TracingState::Ring)] {
        let options = parse(&["--tracing", word]).unwrap().options;
        let read = |more: &[(&str, &str)]| {
            let set = [&[AT][..], more].concat();
            options.read_with("x", set.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()))).unwrap()
        };
        assert_eq!(
            read(&[]),
            Tracing {
                state: Some(state),
                export: None,
                warnings: vec!["OTEL_EXPORTER_OTLP_ENDPOINT has no effect".to_owned()],
            }
        );
        assert_eq!(read(&[("OTEL_SDK_DISABLED", "true")]).state, Some(TracingState::Off));
    }
    for bad in [&["--tracing", "exported"][..], &["--tracing", "ring", "--tracing-config-file", "x"]] {
        assert!(parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn variables_for_traces_count_before_those_for_all_signals() {
    let own = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces/in"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
    ];
    let common = [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    assert_eq!(export(&[own.as_slice(), &common].concat()).endpoint, "https://traces/in");
    let of = |name: &str, own: &str, common: &str| {
        let names = [format!("OTEL_EXPORTER_OTLP_TRACES_{name}"), format!("OTEL_EXPORTER_OTLP_{name}")];
        [export(&[(names[0].as_str(), own), (names[1].as_str(), common)]), export(&[(names[1].as_str(), common)])]
    };
    assert_eq!(of("TIMEOUT", "70", "80").map(|export| export.timeout.as_millis()), [70, 80]);
    assert_eq!(of("COMPRESSION", "gzip", "none").map(|export| export.gzip), [true, false]);
    let names = of("HEADERS", "A=1", "b=2").map(|export| export.headers[0].0.clone());
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn grpc_goes_to_the_endpoint_itself() {
    let grpc = export(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
    assert_eq!((grpc.protocol, grpc.endpoint.as_str()), (OtlpProtocol::Grpc, "http://otel:4318"));
}

#[test]
fn headers_and_attributes_are_lists_of_encoded_pairs() {
    let headers = export(&[("OTEL_EXPORTER_OTLP_HEADERS", " Authorization = Bearer%20a%2Cb ,x=1,=y,z")]).headers;
    assert_eq!(headers, [("authorization".to_owned(), "Bearer a,b".to_owned()), ("x".to_owned(), "1".to_owned())]);
    let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=mine,host.name=n%zz");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(export(&[attributes]).resource, [pair("host.name", "n%zz"), pair("service.name", "mine")]);
    let named = export(&[attributes, ("OTEL_SERVICE_NAME", "other")]).resource;
    assert_eq!(named, [pair("host.name", "n%zz"), pair("service.name", "other")]);
}

#[test]
fn samplers_are_named() {
    let sampler = |name: &str| export(&[("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", "0.25")]).sampler;
    let quarter = Ratio::per_million(250_000).unwrap();
    for (name, ratio) in [("always_on", Ratio::ALL), ("always_off", Ratio::NONE), ("traceidratio", quarter)] {
        assert_eq!(sampler(name), Sampler { ratio, parent_based: false });
        assert_eq!(sampler(&format!("parentbased_{name}")), Sampler::parent_based(ratio));
    }
}

#[test]
fn the_queue_is_set_by_the_variables_of_the_batch_processor() {
    let set = [
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "20"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10"),
    ];
    let export = export(&set);
    assert_eq!((export.delay.as_millis(), export.queue, export.batch), (100, 20, 10));
}

#[test]
fn certificates_are_read_and_one_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, "pem").unwrap();
    for name in ["OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE"] {
        assert_eq!(export(&[(name, path.to_str().unwrap())]).authorities.as_deref(), Some("pem"));
        let missing = [AT, (name, "/none.pem")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let error = TracingOptions::default().read_with("x", missing).unwrap_err().to_string();
        assert!(error.starts_with("/none.pem: "), "{error}");
    }
}

#[test]
fn what_has_no_effect_is_warned_about_without_its_value() {
    let (secret, bad) = (("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "token=secret"), ("OTEL_BSP_MAX_QUEUE_SIZE", "0"));
    let empty = ("OTEL_PROPAGATORS", " ");
    let expected = [
        "OTEL_BSP_MAX_QUEUE_SIZE has no effect: it must be a number from 1 to 65536",
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS has no effect",
    ];
    assert_eq!(read(&[AT, secret, bad, empty]).warnings, expected);
    for (name, value) in [
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "otel:4318"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1s"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "brotli"),
        ("OTEL_TRACES_SAMPLER_ARG", "2"),
    ] {
        let warnings = read(&[AT, (name, value)]).warnings;
        assert!(warnings.len() == 1 && warnings[0].starts_with(&format!("{name} has no effect: ")), "{warnings:?}");
    }
    // Without an endpoint no other variable has an effect.
    assert_eq!(read(&[("OTEL_SERVICE_NAME", "x")]).warnings, ["OTEL_SERVICE_NAME has no effect"]);
}

#[test]
fn the_file_counts_before_endpoint_and_sampler_of_the_variables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tracing.yaml");
    let content = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: 10\n";
    std::fs::write(&path, content).unwrap();
    let options = TracingOptions { tracing_config_file: Some(path), ..TracingOptions::default() };
    let variables = [AT, ("OTEL_TRACES_SAMPLER", "always_on"), ("OTEL_SERVICE_NAME", "x")];
    let tracing =
        options.read_with("apiserver", variables.map(|(name, value)| (name.to_owned(), value.to_owned()))).unwrap();
    let export = tracing.export.unwrap();
    assert_eq!((export.protocol, export.endpoint.as_str()), (OtlpProtocol::Grpc, "http://localhost:4317"));
    assert_eq!(export.sampler, Sampler::parent_based(Ratio::per_million(10).unwrap()));
    assert_eq!(tracing.warnings, ["OTEL_EXPORTER_OTLP_ENDPOINT has no effect", "OTEL_TRACES_SAMPLER has no effect"]);
}
