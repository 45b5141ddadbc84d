//! The API writes of the claims of a StatefulSet's pods.

use oarlock_informer::{Item, ObjMeta};
use oarlock_meta::Status;
use oarlock_schema::Obj;
use oarlock_schema::views::{View, meta_v1};

use super::act::Target;
use super::claims::{ClaimWork, Owner, claim_name};
use super::members::{Pod, pod_name};
use super::plan::PodRevision;
use super::{StatefulSets, objects};
use crate::project::StatefulSet;
use crate::write;

/// The reason of the Event about a claim that another controller manages.
const CONFLICTING: &str = "ConflictingController";

impl StatefulSets {
    /// Creates the missing claims of a pod, and changes the owners of the others.
    pub(super) async fn keep_claims(
        &self,
        target: &Target<'_>,
        (ordinal, pod): (i64, &Pod),
        claims: &ClaimWork,
    ) -> Result<(), Status> {
        self.create_claims(target, ordinal, claims).await?;
        let owned = self.own_claims(target.set, (pod.meta.name(), Some(&pod.meta)), claims).await;
        if owned.is_err() {
            self.record(target.set, "Update", pod.meta.name(), &owned);
        }
        owned
    }

    /// Creates the missing claims of a pod.
    pub(super) async fn create_claims(
        &self,
        target: &Target<'_>,
        ordinal: i64,
        claims: &ClaimWork,
    ) -> Result<(), Status> {
        let (set, mut failure) = (target.set, None);
        let (about, pod) = (write::about(self.sets.resource, &set.meta), pod_name(set.meta.name(), ordinal));
        for place in &claims.missing {
            let template = set.value.claims.get(*place).map_or("", |template| template.as_str());
            let name = claim_name(template, set.meta.name(), ordinal);
            let claim =
                objects::claim((self.sets.resource, set), target.whole(PodRevision::Update)?, (*place, ordinal))?;
            match self.env.client.create(self.claim, claim).await {
                Ok(object) => {
                    self.sets.own.wrote(set.key(), &self.claims, object.revision);
                    let message = format!("Create Claim {name} Pod {pod} in StatefulSet {} success", set.meta.name());
                    self.env.recorder.normal(&about, "SuccessfulCreate", message);
                }
                Err(status) => {
                    if !status.is_already_exists() {
                        let text = &status.message;
                        let set = set.meta.name();
                        let message =
                            format!("Create Claim {name} for Pod {pod} in StatefulSet {set} failed error: {text}");
                        self.env.recorder.warning(&about, "FailedCreate", message);
                    }
                    let message = format!("failed to create PVC {name}: {}", status.message);
                    failure.get_or_insert(Status { message, ..status });
                }
            }
        }
        if let Some(name) = claims.deleted.first() {
            failure.get_or_insert_with(|| Status::custom(500, "", format!("pvc {name} is being deleted")));
        }
        failure.map_or(Ok(()), Err)
    }

    /// Gives claims of a pod the owners that the set wants.
    pub(super) async fn own_claims(
        &self,
        set: &Item<StatefulSet>,
        (name, pod): (&str, Option<&ObjMeta>),
        claims: &ClaimWork,
    ) -> Result<(), Status> {
        for claim in &claims.conflicts {
            let message = format!(
                "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a managing controller, \
                 the retention policy is ignored for this claim"
            );
            self.env.recorder.warning(&write::about(self.sets.resource, &set.meta), CONFLICTING, message);
        }
        for (claim, owner) in &claims.owners {
            let ty = meta_v1::OwnerReference::TYPE;
            let owner = match owner {
                Some(Owner::Set) => Some(write::owner_node(ty, self.sets.resource, &set.meta)),
                Some(Owner::Pod) => pod.map(|pod| write::owner_node(ty, self.pod, pod)),
                None => None,
            };
            let change = |object: &mut Obj| objects::own(object, set.meta.name(), name, owner);
            let written = write::update(&self.env.client, self.claim, "", &claim.meta, change).await?;
            self.sets.own.wrote(set.key(), &self.claims, written.revision);
        }
        Ok(())
    }
}
