//! Printers of endpoints and endpoint slices.

use oarlock_schema::Value;
use oarlock_schema::views::core_v1::Endpoints;
use oarlock_schema::views::discovery_v1::EndpointSlice;

use super::text::{NONE, first_three};
use super::{Now, cells};

pub(super) fn slice(obj: EndpointSlice<'_>, now: Now) -> Vec<Value> {
    let meta = obj.metadata();
    let port = |port: Option<i64>, name: Option<&str>| match (port, name) {
        (Some(port), _) => port.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    };
    let ports: Vec<String> = obj.ports().iter().map(|p| port(p.port(), p.name())).collect();
    let addresses: Vec<String> = obj.endpoints().iter().flat_map(|e| e.addresses().iter().map(str::to_owned)).collect();
    cells![
        meta.name(),
        obj.address_type(),
        first_three(&ports),
        first_three(&addresses),
        now.since(meta.creation_timestamp()),
    ]
}

pub(super) fn endpoints(obj: Endpoints<'_>, now: Now) -> Vec<Value> {
    let meta = obj.metadata();
    cells![meta.name(), points(obj), now.since(meta.creation_timestamp())]
}

fn points(endpoints: Endpoints<'_>) -> String {
    if endpoints.subsets().is_empty() {
        return NONE.to_owned();
    }
    let mut points = Vec::new();
    for subset in endpoints.subsets().iter() {
        if subset.ports().is_empty() {
            points.extend(subset.addresses().iter().map(|address| address.ip().to_owned()));
        }
        for port in subset.ports().iter() {
            points.extend(subset.addresses().iter().map(|address| match address.ip() {
                ip if ip.contains(':') => format!("[{ip}]:{}", port.port()),
                ip => format!("{ip}:{}", port.port()),
            }));
        }
    }
    if points.is_empty() { String::new() } else { first_three(&points) }
}
