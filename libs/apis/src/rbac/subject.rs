//! Defaults of the subjects of role bindings.

use oarlock_schema::Struct;
use oarlock_schema::views::rbac_v1::SubjectMut;

/// The API group of users and groups.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// Sets the API group of a subject: users and groups have [`GROUP`], service accounts the core group (upstream `SetDefaults_Subject`).
pub fn default(node: &mut Struct) {
    let mut subject = SubjectMut::new(node);
    if subject.read().api_group().is_empty() && matches!(subject.read().kind(), "User" | "Group") {
        subject.set_api_group(GROUP);
    }
}
