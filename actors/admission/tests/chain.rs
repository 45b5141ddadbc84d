//! The admission chain: the order of stages, and the guard around each.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{World, decode, resource};
use async_trait::async_trait;
use oarlock_admission::{AdmissionStage, Attributes, Chain, Half, Operation, RequestContext, Subject, table};
use oarlock_meta::Status;
use oarlock_runtime::clock;
use oarlock_schema::{Obj, Resource};
use serde_json::json;

/// Panics on its first request only.
struct Faulty(AtomicBool);

#[async_trait]
impl AdmissionStage for Faulty {
    fn name(&self) -> &'static str {
        "Faulty"
    }

    fn handles(&self, _operation: Operation) -> bool {
        true
    }

    async fn admit(&self, _attributes: &mut Attributes<'_>) -> Result<(), Status> {
        assert!(self.0.swap(true, Ordering::Relaxed), "a bug in a stage");
        Ok(())
    }
}

#[tokio::test]
async fn a_stage_that_panics_answers_500_and_the_next_request_works() {
    let chain = Chain::new(vec![Box::new(Faulty(AtomicBool::new(false)))]);
    let resource = resource("configmaps");
    for code in [500, 0] {
        let mut object = decode(&json!({"metadata": {"name": "c"}}), resource.ty);
        let mut context = RequestContext::new(clock::never(), false);
        let mut attributes = attributes(resource, &mut object, &mut context);
        let answer = chain.admit(&mut attributes).await;
        assert_eq!(answer.err().map_or(0, |status| status.code), code);
    }
}

/// Refuses in the half in which it takes part.
struct Refuses(Half);

#[async_trait]
impl AdmissionStage for Refuses {
    fn name(&self) -> &'static str {
        "Refuses"
    }

    fn handles(&self, _operation: Operation) -> bool {
        true
    }

    fn takes_part(&self, half: Half, attributes: &Attributes<'_>) -> bool {
        half == self.0 && attributes.is("", "configmaps")
    }

    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        Err(attributes.forbidden("mutating"))
    }

    async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        Err(attributes.forbidden("validating"))
    }
}

#[tokio::test]
async fn a_stage_runs_in_the_halves_in_which_it_takes_part() {
    for half in [Half::Mutating, Half::Validating] {
        let chain = Chain::new(vec![Box::new(Refuses(half))]);
        for plural in ["configmaps", "secrets"] {
            let resource = resource(plural);
            let mut object = decode(&json!({"metadata": {"name": "c"}}), resource.ty);
            let mut context = RequestContext::new(clock::never(), false);
            let mut attributes = attributes(resource, &mut object, &mut context);
            let refused =
                [chain.admit(&mut attributes).await, chain.validate(&mut attributes).await].map(|r| r.is_err());
            let takes_part = plural == "configmaps";
            assert_eq!(refused, [Half::Mutating, Half::Validating].map(|run| takes_part && run == half), "{half:?}");
        }
    }
}

fn attributes<'a>(resource: &'static Resource, object: &'a mut Obj, context: &'a mut RequestContext) -> Attributes<'a> {
    Attributes {
        operation: Operation::Create,
        resource,
        subresource: "",
        namespace: "n",
        name: "",
        user: Subject::new("u", &[]),
        object: Some(object),
        old: None,
        context,
        authorizer: None,
        bus: None,
    }
}

#[test]
fn stages_run_in_upstreams_order() {
    let world = World::new();
    let names: Vec<&str> = world.chain.names().collect();
    assert_eq!(
        names,
        [
            "NamespaceLifecycle",
            "LimitRanger",
            "ServiceAccount",
            "NodeRestriction",
            "TaintNodesByCondition",
            "Priority",
            "DefaultTolerationSeconds",
            "DefaultStorageClass",
            "StorageObjectInUseProtection",
            "RuntimeClass",
            "CertificateApproval",
            "CertificateSigning",
            "CertificateSubjectRestriction",
            "ValidatingAdmissionPolicy",
            "ResourceQuota",
        ]
    );
    let rows: Vec<&str> = table::STAGES.iter().map(|row| row.name).collect();
    assert_eq!(names, rows, "a stage calls itself as its row does");
}

#[tokio::test]
async fn nothing_is_created_in_a_namespace_that_is_going() {
    let world = World::new();
    world.put("namespaces", &json!({"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let status = world.create("configmaps", "n", &json!({"metadata": {"name": "c"}})).await.unwrap_err();
    assert_eq!(
        status.message,
        "configmaps \"c\" is forbidden: unable to create new content in namespace n because it is being terminated"
    );
    assert_eq!(status.cause("NamespaceTerminating").unwrap().field, "metadata.namespace");
    let status = world.create("configmaps", "none", &json!({"metadata": {"name": "c"}})).await.unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (404, "namespaces \"none\" not found"));
}
