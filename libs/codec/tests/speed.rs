//! Measures the time per object; run by hand: `cargo test --release -p oarlock-codec --test all -- --ignored --nocapture speed`.

#![allow(clippy::disallowed_methods, reason = "it measures real time")]

use std::time::Instant;

use oarlock_codec::{Mode, json, protobuf, yaml};
use oarlock_schema::type_named;

const SMALL: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-7f6c5d-abcde","namespace":"default","labels":{"app":"web","pod-template-hash":"7f6c5d"}},"spec":{"containers":[{"name":"web","image":"registry.example.com/team/web:1.27.3","resources":{"limits":{"cpu":"500m","memory":"128Mi"},"requests":{"cpu":"100m","memory":"64Mi"}},"ports":[{"containerPort":8080}]}],"nodeSelector":{"pool":"general"}}}"#;

fn best(what: &str, bytes: usize, mut run: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..50 {
        let start = Instant::now();
        for _ in 0..400 {
            run();
        }
        best = best.min(start.elapsed().as_secs_f64() / 400.0);
    }
    eprintln!("{what:<28} {bytes:>6} bytes {:>8.2} us", best * 1e6);
}

#[test]
#[ignore = "measures; run it in release"]
fn prints_the_time_of_one_object() {
    let ty = type_named("core/v1.Pod").unwrap();
    for (name, body) in [("small", SMALL), ("full", include_str!("data/pod.json"))] {
        let pod = json::decode(body.as_bytes(), ty, Mode::Strict).unwrap();
        assert!(pod.findings.is_empty(), "{:?}", pod.findings);
        let pod = pod.value;
        let pb = protobuf::encode(&pod);
        let text = yaml::encode(&pod);
        best(&format!("{name}: decode json strict"), body.len(), || {
            std::hint::black_box(json::decode(body.as_bytes(), ty, Mode::Strict).unwrap());
        });
        best(&format!("{name}: peek"), body.len(), || {
            std::hint::black_box(json::peek_gvk(body.as_bytes()).unwrap());
        });
        best(&format!("{name}: encode json"), body.len(), || {
            std::hint::black_box(json::encode(&pod));
        });
        best(&format!("{name}: decode protobuf"), pb.len(), || {
            std::hint::black_box(protobuf::decode(&pb, ty).unwrap());
        });
        best(&format!("{name}: encode protobuf"), pb.len(), || {
            std::hint::black_box(protobuf::encode(&pod));
        });
        best(&format!("{name}: clone"), body.len(), || {
            std::hint::black_box(pod.clone());
        });
        best(&format!("{name}: decode yaml"), text.len(), || {
            std::hint::black_box(yaml::decode(&text, ty, Mode::Strict).unwrap());
        });
    }
}

#[test]
#[ignore = "for a profiler: PROFILE=json or protobuf"]
fn decodes_over_and_over() {
    let ty = type_named("core/v1.Pod").unwrap();
    let body = include_str!("data/pod.json");
    let pb = protobuf::encode(&json::decode(body.as_bytes(), ty, Mode::Strict).unwrap().value);
    let binary = std::env::var("PROFILE").is_ok_and(|what| what == "protobuf");
    for _ in 0..300_000 {
        if binary {
            std::hint::black_box(protobuf::decode(&pb, ty).unwrap());
        } else {
            std::hint::black_box(json::decode(body.as_bytes(), ty, Mode::Strict).unwrap());
        }
    }
}
