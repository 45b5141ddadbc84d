//! `serviceaccounts/token`: issues a bound token for a ServiceAccount (TokenRequest API).

use oarlock_auth::tokens::{BoundObject, TokenRequest};
use oarlock_client::{Reply, WriteOptions};
use oarlock_meta::{Status, Time};
use oarlock_registry::kind::Request;
use oarlock_runtime::{clock, rng};
use oarlock_schema::views::authentication_v1::{TokenRequest as View, TokenRequestMut};
use oarlock_schema::{Obj, Value};

use crate::caller::Caller;
use crate::lookup::ReaderLookup;
use crate::ownership;
use crate::pipeline::{Attempt, Commit, Source};
use crate::server::Server;
use crate::target::Target;

/// The source of the pipeline for a TokenRequest for the ServiceAccount that the URL names.
pub(crate) struct PostedTokenRequest<'a> {
    options: &'a WriteOptions,
}

impl<'a> PostedTokenRequest<'a> {
    pub(crate) fn new(options: &'a WriteOptions) -> Self {
        Self { options }
    }
}

impl Source for PostedTokenRequest<'_> {
    type Outcome = Reply;

    const STORED: bool = false;

    fn own(&mut self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        if let Some(body) = &mut attempt.object {
            ownership::on_post(attempt.caller, attempt.target, self.options, body);
        }
        Ok(())
    }

    /// Checks whether the request can be fulfilled before the validating stages run, which see the account's uid and the lifetime that the token
    /// would have.
    fn validate(&mut self, of: &Request<'_>, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        let Attempt { server, target, object: Some(body), .. } = attempt else { return Err(no_request()) };
        let lookup = ReaderLookup::new(server.reader().clone());
        let accepted = server.issuer().accept((target.namespace, target.name), &request(body)?, &lookup)?;
        if let Some(mut meta) = body.meta_mut() {
            meta.set_uid(accepted.uid.as_str())
                .set_name(target.name)
                .set_namespace(target.namespace)
                .set_creation_timestamp(of.now);
        }
        oarlock_registry::fields::remove_at(body, &["status"]);
        asked(body, &accepted.audiences, accepted.expiration_seconds);
        Ok(())
    }

    async fn finish(self, attempt: Attempt<'_>, _: Option<Commit>) -> Result<Reply, Status> {
        let Attempt { server, caller, target, object: Some(body), .. } = attempt else { return Err(no_request()) };
        issue(server, caller, target, body)
    }
}

/// Issues the token for an admitted request.
///
/// # Errors
/// 404 for an unknown account or bound object, 409 for another uid, 422 for a bad request.
fn issue(server: &Server, caller: &Caller, target: &Target<'_>, mut body: Obj) -> Result<Reply, Status> {
    let lookup = ReaderLookup::new(server.reader().clone());
    let (now, id) = (clock::wall().as_second(), rng::uuid().to_string());
    let account = (target.namespace, target.name);
    let issued = server.issuer().issue(account, &request(&body)?, &lookup, now, &id)?;
    issued.warnings.iter().for_each(|text| caller.warn(text.clone()));
    asked(&mut body, &issued.audiences, issued.expiration_seconds);
    let mut out = TokenRequestMut::new(&mut body);
    let mut status = out.status_mut();
    status.set_token(issued.token.as_str()).set_expiration_timestamp(Time::from_unix(issued.expires_at).to_string());
    Ok(crate::answers::answer(&body, true))
}

fn no_request() -> Status {
    Status::bad_request("the body is no TokenRequest")
}

/// Decodes the requested token.
///
/// # Errors
/// 400 when the body is not a TokenRequest.
fn request(body: &Obj) -> Result<TokenRequest, Status> {
    let Some(view) = body.view::<View<'_>>() else {
        return Err(no_request());
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
