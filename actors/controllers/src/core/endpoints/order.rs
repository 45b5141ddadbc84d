//! The order of subsets, and of the ports in a subset. Upstream sorts by a digest (128-bit FNV-1a) of Go's dump of each. The order means nothing, but clients
//! that read `subsets[0]` find the same there.

use std::fmt::Write;

use super::address::{Address, Reached};
use crate::project::Digest;

/// A subset: addresses with the same ports.
#[derive(Debug)]
pub(super) struct Subset<'a> {
    pub(super) ports: Vec<Reached>,
    /// Sorted by address and uid, as `unready` is.
    pub(super) ready: Vec<&'a Address>,
    pub(super) unready: Vec<&'a Address>,
}

/// Sorts ports, then subsets.
pub(super) fn sort(subsets: &mut [Subset<'_>]) {
    for subset in &mut *subsets {
        subset.ports.sort_by_cached_key(|port| digest(&format!("(v1.EndpointPort){}", dump_port(port))));
    }
    subsets.sort_by_cached_key(|subset| digest(&dump(subset)));
}

fn digest(text: &str) -> u128 {
    let mut digest = Digest::default();
    digest.bytes(text.as_bytes());
    digest.get()
}

/// Formats a subset as `%#v` of go-spew prints it.
pub(super) fn dump(subset: &Subset<'_>) -> String {
    let Subset { ports, ready, unready } = subset;
    format!(
        "(v1.EndpointSubset){{Addresses:([]v1.EndpointAddress){} NotReadyAddresses:([]v1.EndpointAddress){} Ports:([]v1.EndpointPort){}}}",
        dump_list(ready.iter().map(|address| dump_address(address))),
        dump_list(unready.iter().map(|address| dump_address(address))),
        dump_list(ports.iter().map(dump_port)),
    )
}

/// Formats a list; an empty one as nil, because a Go slice to which nothing was appended is nil.
fn dump_list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "<nil>".to_owned() } else { format!("[{}]", items.join(" ")) }
}

fn dump_address(address: &Address) -> String {
    let meta = &address.pod.meta;
    let mut text = format!("{{IP:(string){} Hostname:(string)", address.ip);
    text.push_str(address.hostname.as_deref().unwrap_or(""));
    // Writing to a text cannot fail.
    let _ = write!(
        text,
        " NodeName:(*string){} TargetRef:(*v1.ObjectReference){{Kind:(string)Pod Namespace:(string){} Name:(string){} UID:(types.UID){} \
         APIVersion:(string) ResourceVersion:(string) FieldPath:(string)}}}}",
        address.node.as_deref().unwrap_or("<nil>"),
        meta.namespace(),
        meta.name(),
        meta.uid.as_str(),
    );
    text
}

fn dump_port(port: &Reached) -> String {
    format!(
        "{{Name:(string){} Port:(int32){} Protocol:(v1.Protocol){} AppProtocol:(*string){}}}",
        port.name,
        port.number,
        port.protocol,
        port.app_protocol.as_deref().unwrap_or("<nil>"),
    )
}
