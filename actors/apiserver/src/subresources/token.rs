//! `serviceaccounts/token`: a bound token for an account (TokenRequest API).

use oarlock_auth::tokens::{BoundObject, TokenRequest};
use oarlock_client::Reply;
use oarlock_meta::{Status, Time};
use oarlock_runtime::{clock, rng};
use oarlock_schema::Obj;
use oarlock_schema::views::authentication_v1::{TokenRequest as View, TokenRequestMut};

use crate::caller::Caller;
use crate::lookup::ReaderLookup;
use crate::server::Server;
use crate::target::Target;

/// Issues a token.
///
/// # Errors
/// 404 for an unknown account or bound object, 409 for another uid, 422 for a bad request.
pub(crate) fn issue(server: &Server, caller: &Caller, target: &Target<'_>, mut body: Obj) -> Result<Reply, Status> {
    let request = {
        let Some(view) = body.view::<View<'_>>() else {
            return Err(Status::bad_request("the body is no TokenRequest"));
        };
        let spec = view.spec();
        TokenRequest {
            name: body.meta().name().to_owned(),
            namespace: body.meta().namespace().to_owned(),
            uid: body.meta().uid().to_owned(),
            audiences: spec.audiences().iter().map(str::to_owned).collect(),
            expiration_seconds: spec.expiration_seconds(),
            bound: spec.bound_object_ref().map(|bound| BoundObject {
                api_version: bound.api_version().to_owned(),
                kind: bound.kind().to_owned(),
                name: bound.name().to_owned(),
                uid: bound.uid().to_owned(),
            }),
        }
    };
    let lookup = ReaderLookup::new(server.reader().clone());
    let (now, id) = (clock::wall().as_second(), rng::uuid().to_string());
    let issued = server.issuer().issue((target.namespace, target.name), &request, &lookup, now, &id)?;
    issued.warnings.iter().for_each(|text| caller.warn(text.clone()));
    if let Some(mut meta) = body.meta_mut() {
        meta.set_uid(issued.uid.as_str())
            .set_name(target.name)
            .set_namespace(target.namespace)
            .set_creation_timestamp(crate::stages::now_text());
    }
    let mut out = TokenRequestMut::new(&mut body);
    let mut status = out.status_mut();
    status.set_token(issued.token.as_str()).set_expiration_timestamp(Time::from_unix(issued.expires_at).to_string());
    let mut spec = out.spec_mut();
    spec.set_audiences(issued.audiences.iter().map(String::as_str).collect::<oarlock_schema::Value>());
    spec.set_expiration_seconds(issued.expiration_seconds);
    Ok(crate::call::answer(&body, true))
}
