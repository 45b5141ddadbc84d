//! Authorization queries of admission policy expressions (the CEL `authorizer`).

use oarlock_auth::{Attributes, UserInfo};
use oarlock_cel::{AccessQuery, Authorizer, Decision};
use oarlock_meta::{FieldSelector, LabelSelector};

use crate::caller::Caller;
use crate::server::Server;

/// Answers authorization queries about the caller, or about a ServiceAccount that an expression names.
pub(crate) struct OwnRights<'a> {
    pub(crate) server: &'a Server,
    pub(crate) caller: &'a Caller,
}

impl Authorizer for OwnRights<'_> {
    fn check(&self, query: &AccessQuery) -> Decision {
        let account = query.account.as_ref().map(|(namespace, name)| UserInfo::service_account(namespace, name, ""));
        let user = account.as_ref().unwrap_or(&self.caller.user);
        // An invalid selector does not restrict the query.
        let fields = Some(&query.field_selector)
            .filter(|text| !text.is_empty())
            .and_then(|text| FieldSelector::parse(text).ok());
        let labels = Some(&query.label_selector)
            .filter(|text| !text.is_empty())
            .and_then(|text| LabelSelector::parse(text).ok());
        let attributes = if query.path.is_empty() {
            Attributes {
                version: "*",
                subresource: &query.subresource,
                namespace: &query.namespace,
                name: &query.name,
                fields: fields.as_ref(),
                labels: labels.as_ref(),
                ..Attributes::resource(user, &query.verb, &query.group, &query.resource)
            }
        } else {
            Attributes::path(user, &query.verb, &query.path)
        };
        let decision = self.server.authorizers().authorize(&attributes);
        Decision { allowed: decision.allowed(), reason: decision.reason(), error: None }
    }
}
