//! TokenReview and SelfSubjectReview.

use oarlock_auth::UserInfo;
use oarlock_client::Reply;
use oarlock_meta::Status;
use oarlock_runtime::clock;
use oarlock_schema::views::authentication_v1::{SelfSubjectReviewMut, TokenReview, TokenReviewMut, UserInfoMut};
use oarlock_schema::{Obj, Value};

use crate::caller::Caller;
use crate::server::Server;

/// Answers a TokenReview with the user to whom the token belongs.
///
/// # Errors
/// 400 when the body is not a review or has no token.
pub(super) fn review(server: &Server, mut obj: Obj) -> Result<Reply, Status> {
    let Some(view) = obj.view::<TokenReview<'_>>() else {
        return Err(Status::bad_request("the body is no TokenReview"));
    };
    let token = view.spec().token().to_owned();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences: Vec<String> = view.spec().audiences().iter().map(str::to_owned).collect();
    let verdict = server.authenticators().review(&token, &audiences, clock::wall().as_second());
    let mut changed = TokenReviewMut::new(&mut obj);
    let mut status = changed.status_mut();
    match verdict {
        Ok(verified) => {
            status.set_authenticated(true);
            fill(&mut status.user_mut(), &verified.user);
            status.set_audiences(verified.audiences.iter().map(String::as_str).collect::<Value>());
        }
        Err(error) => {
            status.set_error(error.to_string());
        }
    }
    Ok(super::answered(obj))
}

/// Answers a SelfSubjectReview with the caller's identity; the answer does not repeat the request.
pub(super) fn who_am_i(caller: &Caller, asked: &Obj) -> Reply {
    let mut obj = Obj::new(asked.ty());
    if let Some(mut meta) = obj.meta_mut() {
        meta.set_creation_timestamp(crate::now::text());
    }
    let mut changed = SelfSubjectReviewMut::new(&mut obj);
    fill(&mut changed.status_mut().user_info_mut(), &caller.user);
    super::answered(obj)
}

fn fill(out: &mut UserInfoMut<'_>, user: &UserInfo) {
    out.set_username(user.name.as_str()).set_uid(user.uid.as_str());
    out.set_groups(user.groups.iter().map(String::as_str).collect::<Value>());
    let extra = out.extra_mut();
    for (key, values) in &user.extra {
        extra.insert(key.as_str(), values.iter().map(String::as_str).collect::<Value>());
    }
}
