//! CustomResourceDefinitions: `status` updates may also change metadata; the server records the versions in which objects may be stored.

use oarlock_schema::views::apiextensions_v1::{CustomResourceDefinition, CustomResourceDefinitionMut};
use oarlock_schema::{Obj, Value};

use crate::fields;
use crate::kind::{Request, Strategy};

/// Strategy of CustomResourceDefinitions.
#[derive(Debug)]
pub struct CustomResourceDefinitionStrategy;

impl Strategy for CustomResourceDefinitionStrategy {
    fn prepare_create(&self, request: &Request<'_>, obj: &mut Obj) {
        fields::reset_for_create(request.resource, obj);
        note_stored_version(obj);
    }

    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        match request.endpoint {
            "status" => fields::restore(new, old, &["spec"]),
            _ => {
                fields::reset_for_update(request.resource, request.endpoint, new, old);
                note_stored_version(new);
            }
        }
    }
}

/// Adds the storage version to `status.storedVersions`. Earlier versions stay until an administrator who has migrated all objects removes them.
fn note_stored_version(obj: &mut Obj) {
    let Some(crd) = obj.view::<CustomResourceDefinition<'_>>() else { return };
    let Some(version) = crd.spec().versions().iter().find(|version| version.storage()) else { return };
    let name = version.name();
    if crd.status().stored_versions().iter().any(|stored| stored == name) {
        return;
    }
    let name = Value::from(name);
    CustomResourceDefinitionMut::new(obj).status_mut().stored_versions_mut().push(name);
}

#[cfg(test)]
mod tests {
    use oarlock_codec::{Mode, json};
    use oarlock_schema::resource;

    use super::*;
    use crate::kind::tests::request;

    fn crd(storage: &str, stored: &str) -> Obj {
        let version = |name: &str| format!(r#"{{"name":"{name}","served":true,"storage":{}}}"#, name == storage);
        let text = format!(
            r#"{{"spec":{{"versions":[{},{}]}},"status":{{"storedVersions":{stored}}}}}"#,
            version("v1"),
            version("v2")
        );
        let ty = resource("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap().ty;
        json::decode(text.as_bytes(), ty, Mode::Lenient).unwrap().value
    }

    fn stored(obj: &Obj) -> Vec<&str> {
        obj.at(&["status", "storedVersions"]).unwrap().items().iter().filter_map(Value::as_str).collect()
    }

    #[test]
    fn the_storage_version_is_noted_at_creation_and_when_it_changes() {
        let request = request(resource("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap());
        let mut new = crd("v1", r#"["v7"]"#);
        CustomResourceDefinitionStrategy.prepare_create(&request, &mut new);
        assert_eq!(stored(&new), ["v1"], "whatever the client says");
        let old = new;
        let mut new = crd("v2", "[]");
        CustomResourceDefinitionStrategy.prepare_update(&request, &mut new, &old);
        assert_eq!(stored(&new), ["v1", "v2"]);
        let old = new;
        let mut new = crd("v2", "[]");
        CustomResourceDefinitionStrategy.prepare_update(&request, &mut new, &old);
        assert_eq!(stored(&new), ["v1", "v2"]);
    }
}
