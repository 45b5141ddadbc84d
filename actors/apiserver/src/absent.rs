//! Warnings about fields and kinds that this server stores but does not implement yet, so that the client knows that they have no effect.
//!
//! Each text begins with `oarlock:`, since upstream gives no such warning. A text is removed when its feature is built.

use oarlock_schema::Obj;
use oarlock_schema::views::apiregistration_v1::APIService;

use crate::caller::Caller;
use crate::target::Target;

/// Prefix of the namespace labels that configure the admission stage PodSecurity.
const POD_SECURITY: &str = "pod-security.kubernetes.io/";

/// Warns the caller when the object that it creates or changes has no effect.
pub(crate) fn warn(caller: &Caller, target: &Target<'_>, obj: &Obj) {
    if target.subresource.is_empty()
        && let Some(text) = text(target.resource().group, target.resource().plural, obj)
    {
        caller.warn(format!("oarlock: {text}"));
    }
}

fn text(group: &str, plural: &str, obj: &Obj) -> Option<String> {
    match (group, plural) {
        ("", "namespaces") => {
            let labels = obj.meta().labels();
            let mut asked = labels.iter().map(|(key, _)| key).filter(|key| key.starts_with(POD_SECURITY));
            let label = asked.next()?;
            Some(format!("label {label:?} has no effect: the admission stage PodSecurity is not there yet"))
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            Some("the definition has no effect: custom resources are not served yet".to_owned())
        }
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations" | "mutatingwebhookconfigurations") => {
            Some("the configuration has no effect: admission webhooks are not called yet".to_owned())
        }
        ("apiregistration.k8s.io", "apiservices") => {
            // An APIService without a Service describes a group that this server serves itself.
            obj.view::<APIService<'_>>()?.spec().service()?;
            Some("the APIService has no effect: requests are not passed on to Services yet".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oarlock_schema::resource;

    fn said(group: &str, plural: &str, json: &str) -> Option<String> {
        let row = resource(group, "v1", plural).unwrap();
        text(group, plural, &oarlock_registry::index::decode(json.as_bytes(), row.ty).unwrap())
    }

    #[test]
    fn what_has_no_effect_is_said_to_have_none() {
        let labelled = |label: &str| format!(r#"{{"metadata":{{"name":"a","labels":{{"{label}":"restricted"}}}}}}"#);
        let service = r#"{"metadata":{"name":"v1.a.b"},"spec":{"service":{"name":"s","namespace":"n"}}}"#;
        for (group, plural, json) in [
            ("", "namespaces", labelled("pod-security.kubernetes.io/enforce").as_str()),
            ("apiextensions.k8s.io", "customresourcedefinitions", "{}"),
            ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "{}"),
            ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "{}"),
            ("apiregistration.k8s.io", "apiservices", service),
        ] {
            let text = said(group, plural, json).unwrap_or_default();
            assert!(text.contains("has no effect"), "{plural}: {text}");
        }
        for (group, plural, json) in [
            ("", "namespaces", labelled("a").as_str()),
            ("", "pods", labelled("pod-security.kubernetes.io/enforce").as_str()),
            ("apiregistration.k8s.io", "apiservices", r#"{"metadata":{"name":"v1.apps"}}"#),
        ] {
            assert_eq!(said(group, plural, json), None, "{plural}");
        }
    }
}
