//! `serviceaccounts/token`: a bound token for an account (TokenRequest API).

use oarlock_auth::tokens::{BoundObject, TokenRequest};
use oarlock_client::Reply;
use oarlock_meta::{Status, Time};
use oarlock_runtime::{clock, rng};
use oarlock_schema::views::authentication_v1::{TokenRequest as View, TokenRequestMut};
use oarlock_schema::{Obj, Value};
use oarlock_seeded_bug::seeded_bug;

use crate::admission::Admission;
use crate::caller::Caller;
use crate::lookup::ReaderLookup;
use crate::server::Server;
use crate::target::Target;

/// Issues a token, once the stages have checked the request.
///
/// # Errors
/// 404 for an unknown account or bound object, 409 for another uid, 422 for a bad request, and whatever a stage refuses.
pub(crate) async fn issue(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    mut body: Obj,
    admission: &Admission<'_>,
) -> Result<Reply, Status> {
    let account = (target.namespace, target.name);
    let lookup = ReaderLookup::new(server.reader().clone());
    let accepted = server.issuer().accept(account, &request(&body)?, &lookup)?;
    if let Some(mut meta) = body.meta_mut() {
        meta.set_uid(accepted.uid.as_str())
            .set_name(target.name)
            .set_namespace(target.namespace)
            .set_creation_timestamp(crate::stages::now_text());
    }
    oarlock_registry::prepare::remove_at(&mut body, &["status"]);
    asked(&mut body, &accepted.audiences, accepted.expiration_seconds);
    if !seeded_bug!("token_without_admission") {
        admission.validate(Some(&mut body), None).await?;
    }
    let (now, id) = (clock::wall().as_second(), rng::uuid().to_string());
    let issued = server.issuer().issue(account, &request(&body)?, &lookup, now, &id)?;
    issued.warnings.iter().for_each(|text| caller.warn(text.clone()));
    asked(&mut body, &issued.audiences, issued.expiration_seconds);
    let mut out = TokenRequestMut::new(&mut body);
    let mut status = out.status_mut();
    status.set_token(issued.token.as_str()).set_expiration_timestamp(Time::from_unix(issued.expires_at).to_string());
    Ok(crate::call::answer(&body, true))
}

/// What a body asks for.
///
/// # Errors
/// 400 when it is no TokenRequest.
fn request(body: &Obj) -> Result<TokenRequest, Status> {
    let Some(view) = body.view::<View<'_>>() else {
        return Err(Status::bad_request("the body is no TokenRequest"));
    };
    let spec = view.spec();
    Ok(TokenRequest {
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
    })
}

fn asked(body: &mut Obj, audiences: &[String], seconds: i64) {
    let mut out = TokenRequestMut::new(body);
    let mut spec = out.spec_mut();
    spec.set_audiences(audiences.iter().map(String::as_str).collect::<Value>());
    spec.set_expiration_seconds(seconds);
}
