//! Request bodies of any encoding: checks the stated kind, decodes, and answers errors as upstream's handlers do.

use oarlock_meta::{GroupVersionKind, Status};
use oarlock_schema::{Obj, TypeRef, type_of_kind};

use crate::error::{DecodeError, handled_as, unrecognized};
use crate::json::{self, Peeked};
use crate::negotiate::Format;
use crate::protobuf;
use crate::tree;
use crate::walk::{Decoded, Mode};
use crate::yaml;

/// Decodes the body of a create or update as an object of type `ty`, which must be a top-level type. A body that states no
/// kind or version gets those of `ty`; one that states another kind is refused.
///
/// 400 with upstream's text. Findings of strict validation are no error of this function: the caller refuses or warns by the request's
/// `fieldValidation` (see [`strict_error`](crate::strict_error)).
pub fn decode(format: Format, bytes: &[u8], ty: TypeRef, mode: Mode) -> Result<Decoded<Obj>, Status> {
    let Some(gvk) = ty.gvk else {
        return Err(Status::internal_error(format!("{} is no top-level type", ty.name)));
    };
    let default = GroupVersionKind::new(gvk.group, gvk.version, gvk.kind);
    let lost = |error: DecodeError| unrecognized(gvk.kind, error, bytes);
    match format {
        Format::Json => {
            // The kind is nearly always correct; one pass suffices then.
            if let Ok((decoded, false)) = json::decode_noting(bytes, ty, mode)
                && decoded.value.kind() == gvk.kind
                && decoded.value.api_version() == default.api_version()
            {
                return Ok(decoded);
            }
            let stated = states(json::peek_gvk(bytes).map_err(lost)?, &default)?;
            json::decode(bytes, ty, mode).map_err(|error| refused(&stated, gvk.kind, &error))
        }
        Format::Protobuf => {
            let stated = states(protobuf::peek_gvk(bytes).map_err(lost)?, &default)?;
            protobuf::decode(bytes, ty).map_err(|error| refused(&stated, gvk.kind, &error))
        }
        Format::Yaml => {
            let generic = yaml::decode_value(bytes, mode).map_err(lost)?;
            let stated = states(json::peek_value(&generic.value).map_err(lost)?, &default)?;
            let mut typed =
                tree::type_value(&generic.value, ty, mode).map_err(|error| refused(&stated, gvk.kind, &error))?;
            typed.findings.splice(0..0, generic.findings);
            Ok(typed)
        }
    }
}

fn refused(stated: &GroupVersionKind, target: &str, why: impl std::fmt::Display) -> Status {
    handled_as(&stated.kind, &stated.version, target, why)
}

/// Checks the kind that a body states against the kind of the endpoint.
fn states(peeked: Peeked, default: &GroupVersionKind) -> Result<GroupVersionKind, Status> {
    let stated = peeked.or(default);
    if stated == *default {
        return Ok(stated);
    }
    if older(&stated, default) {
        let (data, expected) = (stated.api_version(), default.api_version());
        let text = format!("the API version in the data ({data}) does not match the expected API version ({expected})");
        return Err(Status::bad_request(text));
    }
    let why = if type_of_kind(&stated.group, &stated.version, &stated.kind).is_some() {
        let internal = if default.group.is_empty() { "core" } else { default.group.split('.').next().unwrap_or("") };
        let (version, kind) = (&stated.version, &stated.kind);
        format!("converting ({version}.{kind}) to ({internal}.{}): unknown conversion", default.kind)
    } else {
        no_kind(&stated)
    };
    Err(refused(&stated, &default.kind, why))
}

/// Whether a body states another version of the same kind that upstream decodes before refusing the body: another served version, or one that is no longer
/// served.
fn older(stated: &GroupVersionKind, default: &GroupVersionKind) -> bool {
    let known = type_of_kind(&stated.group, &stated.version, &stated.kind).is_some();
    let same_group = stated.group == default.group && (known || stated.version.contains("beta"));
    stated.kind == default.kind && (same_group || stated.group == "extensions")
}

/// Returns upstream's message for a kind that its scheme does not contain.
#[must_use]
pub fn no_kind(gvk: &GroupVersionKind) -> String {
    let scheme = "in scheme \"pkg/runtime/scheme.go:111\"";
    let kind = oarlock_meta::quote::quote(&gvk.kind);
    let version = oarlock_meta::quote::quote(&gvk.group_version().to_string());
    format!("no kind {kind} is registered for version {version} {scheme}")
}

#[cfg(test)]
mod tests {
    use super::decode;
    use crate::negotiate::Format;
    use crate::walk::Mode;
    use oarlock_schema::type_of_kind;

    fn message(group: &str, version: &str, kind: &str, body: &str) -> String {
        let ty = type_of_kind(group, version, kind).unwrap();
        decode(Format::Json, body.as_bytes(), ty, Mode::Lenient).map_or_else(|status| status.message, |_| String::new())
    }

    #[test]
    fn refuses_other_kinds_as_upstream() {
        for (target, body, want) in [
            (("", "v1", "Pod"), r#"{"kind":"Pod","apiVersion":"v1"}"#, ""),
            (("", "v1", "Pod"), r#"{"kind":"Pod"}"#, ""),
            (("networking.k8s.io", "v1", "Ingress"), r#"{"kind":"Ingress"}"#, ""),
            (
                ("", "v1", "Pod"),
                r#"{"kind":"Foo","apiVersion":"v1"}"#,
                r#"Foo in version "v1" cannot be handled as a Pod: no kind "Foo" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111""#,
            ),
            (
                ("", "v1", "Pod"),
                r#"{"kind":"Pod","apiVersion":"v2"}"#,
                r#"Pod in version "v2" cannot be handled as a Pod: no kind "Pod" is registered for version "v2" in scheme "pkg/runtime/scheme.go:111""#,
            ),
            (
                ("apps", "v1", "Deployment"),
                r#"{"kind":"Pod","apiVersion":"v1"}"#,
                r#"Pod in version "v1" cannot be handled as a Deployment: converting (v1.Pod) to (apps.Deployment): unknown conversion"#,
            ),
            (
                ("", "v1", "Pod"),
                r#"{"kind":"Pod","apiVersion":"v1","KIND":"Service"}"#,
                r#"Service in version "v1" cannot be handled as a Pod: converting (v1.Service) to (core.Pod): unknown conversion"#,
            ),
            (
                ("", "v1", "Pod"),
                r#"{"kind":"Deployment","apiVersion":"apps/v1"}"#,
                r#"Deployment in version "v1" cannot be handled as a Pod: converting (v1.Deployment) to (core.Pod): unknown conversion"#,
            ),
            (
                ("apps", "v1", "Deployment"),
                r#"{"kind":"Deployment","apiVersion":"extensions/v1beta1"}"#,
                "the API version in the data (extensions/v1beta1) does not match the expected API version (apps/v1)",
            ),
        ] {
            assert_eq!(message(target.0, target.1, target.2, body), want);
        }
    }

    #[test]
    fn fills_in_the_kind_that_a_body_leaves_out() {
        let ty = type_of_kind("", "v1", "Pod").unwrap();
        for (format, body) in [(Format::Json, "{}"), (Format::Yaml, ""), (Format::Yaml, "metadata: {name: a}")] {
            let pod = decode(format, body.as_bytes(), ty, Mode::Strict).unwrap().value;
            assert_eq!((pod.kind(), pod.api_version()), ("Pod", "v1"));
        }
    }
}
