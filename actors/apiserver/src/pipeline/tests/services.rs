//! Allocation for Services within the pipeline: duplicates and dry runs, with the answers of a live v1.35.0 server.

use oarlock_client::{Call, WriteOptions};
use oarlock_schema::{Obj, Resource, resource};

use super::world::{Refuses, World, target};

pub(super) fn services() -> &'static Resource {
    resource("", "v1", "services").unwrap()
}

pub(super) fn service(name: &str, spec: &str) -> Obj {
    let json = format!(r#"{{"metadata":{{"name":"{name}","namespace":"n"}},"spec":{spec}}}"#);
    let mut obj = oarlock_registry::index::decode(json.as_bytes(), services().ty).unwrap();
    oarlock_apis::default(&mut obj);
    obj
}

/// Creates or updates a Service; returns the code and text of the answer, 0 without an error.
async fn write(world: &World, verb: &str, name: &str, spec: &str, dry_run: bool) -> (u16, String) {
    let options = WriteOptions { dry_run, ..WriteOptions::default() };
    let (named, call) = match verb {
        "create" => ("", Call::Create(service(name, spec), options)),
        _ => (name, Call::Update(service(name, spec), options)),
    };
    let (_, refused) = world.call(&target(services(), "", named), call).await;
    refused.map_or((0, String::new()), |status| (status.code, status.message))
}

fn ports(ports: &str) -> String {
    format!(r#"{{"type":"NodePort","ports":[{ports}]}}"#)
}

#[tokio::test(start_paused = true)]
async fn a_node_port_is_given_once_to_the_ports_of_one_protocol() {
    let world = World::new(Refuses::Never).await;
    let twice = ports(r#"{"name":"a","port":80,"nodePort":30002},{"name":"b","port":81,"nodePort":30002}"#);
    let taken =
        "Service \"a\" is invalid: spec.ports[1].nodePort: Invalid value: 30002: provided port is already allocated";
    assert_eq!(write(&world, "create", "a", &twice, false).await, (422, taken.to_owned()));
    let once = ports(r#"{"name":"a","port":80,"nodePort":30001}"#);
    assert_eq!(write(&world, "create", "a", &once, false).await.0, 0);
    for dry_run in [true, false] {
        let answer = write(&world, "update", "a", &twice, dry_run).await;
        assert_eq!(answer, (500, "duplicate nodePort: {TCP 30002}".to_owned()));
    }
    let both = r#"{"name":"a","port":80,"nodePort":30002},{"name":"b","port":81,"protocol":"UDP","nodePort":30002}"#;
    assert_eq!(write(&world, "update", "a", &ports(both), false).await.0, 0);
    let unused = twice.replace("NodePort", "ClusterIP");
    let (code, text) = write(&world, "create", "c", &unused, false).await;
    assert!(code == 422 && text.ends_with("spec.ports[1].nodePort: Duplicate value: 30002]"), "{code} {text}");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_asks_for_the_range_of_an_address_and_not_whether_it_is_taken() {
    let world = World::new(Refuses::Never).await;
    let at = |ip: &str| format!(r#"{{"clusterIP":"{ip}","ports":[{{"port":80}}]}}"#);
    assert_eq!(write(&world, "create", "a", &at("10.96.0.77"), false).await.0, 0);
    assert_eq!(write(&world, "create", "b", &at("10.96.0.77"), true).await.0, 0);
    let (code, text) = write(&world, "create", "b", &at("10.96.0.77"), false).await;
    assert!(code == 422 && text.ends_with("provided IP is already allocated"), "{code} {text}");
    let range = "is not in the valid range. The range of valid IPs is 10.96.0.0/16";
    let external = r#"{"type":"ExternalName","externalName":"a.b"}"#;
    assert_eq!(write(&world, "create", "e", external, false).await.0, 0);
    for (verb, name) in [("create", "b"), ("update", "e")] {
        let (code, text) = write(&world, verb, name, &at("10.97.0.1"), true).await;
        assert!(code == 422 && text.ends_with(range), "{verb}: {code} {text}");
    }
    assert_eq!(write(&world, "update", "e", &at("10.96.0.77"), true).await.0, 0);
    let (code, text) = write(&world, "update", "e", &at("10.96.0.77"), false).await;
    assert!(code == 422 && text.ends_with("provided IP is already allocated"), "{code} {text}");
}
