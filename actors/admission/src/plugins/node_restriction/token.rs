//! The tokens that a kubelet may request: bound to one of its pods, for an audience that the pod declares (KEP-4412).

use oarlock_cel::AccessQuery;
use oarlock_meta::Status;
use oarlock_meta::quote::quote;
use oarlock_registry::Reader;
use oarlock_schema::views::core_v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use oarlock_schema::{Obj, Value};

use super::Refusal;
use crate::attributes::{Attributes, UserPermissions};
use crate::plugins::row;

/// The pod that a token is bound to.
#[derive(Debug)]
pub(super) struct Bound<'a> {
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

/// Returns the pod that a token request is bound to.
pub(super) fn bound_to(request: &Obj) -> Result<Bound<'_>, &'static str> {
    let bound = request.at(&["spec", "boundObjectRef"]);
    let text = |field: &str| bound.and_then(|b| b.get(field)).and_then(Value::as_str).unwrap_or("");
    let (name, uid) = (text("name"), text("uid"));
    if text("apiVersion") != "v1" || text("kind") != "Pod" || name.is_empty() {
        return Err("node requested token not bound to a pod");
    }
    if uid.is_empty() {
        return Err("node requested token with a pod binding without a uid");
    }
    Ok(Bound { name, uid })
}

/// Checks the audience of a kubelet's TokenRequest: the pod must declare the same audience, in a projected volume or through a volume's driver. A
/// request without an audience is for the API server's own, which the pod must declare (as an empty audience) like any other.
pub(super) async fn audience(reader: &Reader, attributes: &Attributes<'_>, pod: &Obj) -> Result<(), Refusal> {
    let asked = attributes.object.as_deref().and_then(|request| request.at(&["spec", "audiences"]));
    let asked = match asked.map_or(&[][..], Value::items) {
        [] => "",
        [one] => one.as_str().unwrap_or(""),
        _ => return Err("node may only request 0 or 1 audiences".into()),
    };
    let Some(spec) = pod.view::<Pod<'_>>().map(Pod::spec) else { return Ok(()) };
    let projected = spec.volumes().iter().filter_map(|v| v.projected()).any(|projected| {
        projected.sources().iter().filter_map(|s| s.service_account_token()).any(|token| token.audience() == asked)
    });
    if projected {
        return Ok(());
    }
    for volume in spec.volumes().iter() {
        if let Some(driver) = driver(reader, pod, volume).await?
            && asks(reader, &driver, asked).await?
        {
            return Ok(());
        }
    }
    if granted(attributes, asked) {
        return Ok(());
    }
    let (asked, user) = (quote(asked), attributes.user.name);
    let why = format!(
        "audience {asked} not found in pod spec volume, {user} is not authorized to request tokens for this audience"
    );
    Err(why.into())
}

/// Returns the CSI driver of a volume: the volume's own, or that of the PersistentVolume bound to the volume's claim.
async fn driver(reader: &Reader, pod: &Obj, volume: Volume<'_>) -> Result<Option<String>, Refusal> {
    let claim = match (volume.csi(), volume.persistent_volume_claim(), volume.ephemeral()) {
        (Some(csi), ..) => return Ok(Some(csi.driver().to_owned())),
        (_, Some(claim), _) => claim.claim_name().to_owned(),
        (.., Some(_)) => format!("{}-{}", pod.name(), volume.name()),
        _ => return Ok(None),
    };
    let Some(claim) = fetch(reader, ("", "persistentvolumeclaims"), pod.namespace(), &claim).await? else {
        return Ok(None);
    };
    let bound = claim.view::<PersistentVolumeClaim<'_>>().map_or("", |claim| claim.spec().volume_name());
    if bound.is_empty() {
        return Ok(None);
    }
    let Some(bound) = fetch(reader, ("", "persistentvolumes"), "", bound).await? else { return Ok(None) };
    let csi = bound.view::<PersistentVolume<'_>>().and_then(|volume| volume.spec().csi());
    Ok(csi.map(|csi| csi.driver().to_owned()))
}

/// Whether a driver declares token requests for an audience.
async fn asks(reader: &Reader, driver: &str, audience: &str) -> Result<bool, Refusal> {
    let driver = fetch(reader, ("storage.k8s.io", "csidrivers"), "", driver).await?;
    let requests = driver.as_ref().and_then(|d| d.at(&["spec", "tokenRequests"])).map_or(&[][..], Value::items);
    Ok(requests.iter().any(|r| r.get("audience").and_then(Value::as_str).unwrap_or("") == audience))
}

async fn fetch(
    reader: &Reader,
    (group, plural): (&str, &str),
    namespace: &str,
    name: &str,
) -> Result<Option<Obj>, Refusal> {
    let Some(row) = row(group, "v1", plural) else { return Ok(None) };
    let found = reader.fetch(row, namespace, name).await;
    found.map_err(|error| Refusal::Status(Box::new(Status::service_unavailable(error.to_string()))))
}

/// Whether RBAC lets the kubelet request tokens for an audience that the pod does not declare: verb `request-serviceaccounts-token-audience`, with
/// the audience as the resource and the ServiceAccount as the name.
fn granted(attributes: &Attributes<'_>, audience: &str) -> bool {
    let query = AccessQuery {
        verb: "request-serviceaccounts-token-audience".to_owned(),
        resource: audience.to_owned(),
        namespace: attributes.namespace.to_owned(),
        name: attributes.name.to_owned(),
        ..AccessQuery::default()
    };
    attributes.authorizer.map(UserPermissions::authorizer).is_some_and(|authorizer| authorizer.check(&query).allowed)
}
