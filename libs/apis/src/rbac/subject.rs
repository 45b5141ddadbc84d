//! Subject of a binding.

use oarlock_schema::Struct;
use oarlock_schema::views::rbac_v1::SubjectMut;

/// The API group that users and groups belong to.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// Users and groups are of this API group, service accounts of the core (upstream `SetDefaults_Subject`).
pub fn default(node: &mut Struct) {
    let mut subject = SubjectMut::new(node);
    if subject.read().api_group().is_empty() && matches!(subject.read().kind(), "User" | "Group") {
        subject.set_api_group(GROUP);
    }
}
