//! ValidatingAdmissionPolicy: checks requests against the cluster's policies, which are CEL expressions.

mod params;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use oarlock_meta::Status;
use oarlock_meta::status::Reason;
use oarlock_registry::{Reader, key};
use oarlock_schema::views::admissionregistration_v1::{
    MatchResources, ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
};
use oarlock_schema::{Obj, Resource, canonical};
use oarlock_seeded_bug::seeded_bug;

use super::row;
use crate::attributes::{Attributes, Operation, UserPermissions};
use crate::cache::Cache;
use crate::policy::matching::{self, Candidate, NamespaceNotFound};
use crate::policy::{
    Action, Answer, BoundPolicy, CompiledPolicies, Denial, Failure, Input, Policy, PolicyId, Question, RemoteEvaluator,
    Request, judge,
};
use crate::stage::{AdmissionStage, Half};

/// Resources exempt from policies. A policy about policies could forbid its own removal, and a cluster that refuses access and token reviews does not
/// work.
const EXEMPT: &[(&str, &[&str])] = &[
    (
        "admissionregistration.k8s.io",
        &[
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
            "mutatingwebhookconfigurations",
        ],
    ),
    ("authentication.k8s.io", &["selfsubjectreviews", "tokenreviews"]),
    (
        "authorization.k8s.io",
        &["localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"],
    ),
];

/// The ValidatingAdmissionPolicy stage.
#[derive(Debug)]
pub struct ValidatingAdmissionPolicy {
    reader: Reader,
    policies: Option<&'static Resource>,
    bindings: Option<&'static Resource>,
    known: CompiledPolicies,
    bound: Cache<Obj>,
    elsewhere: RemoteEvaluator,
}

/// Creates the stage ValidatingAdmissionPolicy.
#[must_use]
pub fn make(reader: &Reader) -> Box<dyn AdmissionStage> {
    let row = |plural| row("admissionregistration.k8s.io", "v1", plural);
    Box::new(ValidatingAdmissionPolicy {
        reader: reader.clone(),
        policies: row("validatingadmissionpolicies"),
        bindings: row("validatingadmissionpolicybindings"),
        known: CompiledPolicies::default(),
        bound: Cache::new(Obj::clone),
        elsewhere: RemoteEvaluator::default(),
    })
}

#[async_trait]
impl AdmissionStage for ValidatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    fn handles(&self, _: Operation) -> bool {
        true
    }

    fn takes_part(&self, half: Half, _attributes: &Attributes<'_>) -> bool {
        half == Half::Validating
    }

    async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let resource = attributes.resource;
        if EXEMPT.iter().any(|(group, plurals)| resource.group == *group && plurals.contains(&resource.plural)) {
            return Ok(());
        }
        let bound = self.bound();
        if bound.is_empty() {
            return Ok(());
        }
        let request = Request::of(attributes);
        let (found, mut answer) = self.relevant(&bound, &request, attributes);
        if !found.is_empty() {
            let judged = self.judge(found, request, attributes).await?;
            answer.denials.extend(judged.denials);
            answer.warnings.extend(judged.warnings);
            answer.annotations.extend(judged.annotations);
        }
        attributes.context.annotations.extend(answer.annotations);
        attributes.context.warnings.append(&mut answer.warnings);
        if seeded_bug!("policy_denial_forgotten") {
            answer.denials.clear();
        }
        answer.denials.into_iter().next().map_or(Ok(()), |denial| Err(refusal(attributes, &denial)))
    }
}

/// A policy with one of its bindings.
struct Relevant {
    policy: Arc<Policy>,
    binding: Arc<Obj>,
}

impl ValidatingAdmissionPolicy {
    /// Returns all policies with their bindings, sorted by name.
    fn bound(&self) -> Vec<Relevant> {
        let (Some(policies), Some(bindings)) = (self.policies, self.bindings) else { return Vec::new() };
        let Some(prefix) = key::prefix(bindings) else { return Vec::new() };
        let all = self.reader.view().list(prefix);
        if all.is_empty() {
            return Vec::new();
        }
        let found = all.range(None, "").filter_map(|entry| {
            let binding = self.bound.get(bindings, entry)?;
            let policy = self.reader.entry(policies, "", spec(&binding).policy_name())?;
            Some(Relevant { policy: self.known.get(policies, &policy)?, binding })
        });
        let mut found: Vec<Relevant> = found.collect();
        found.sort_by(|a, b| a.policy.id.name.cmp(&b.policy.id.name));
        found
    }

    /// Selects the policies and bindings that match a request; an error in matching counts as a failure of the policy.
    fn relevant<'b>(
        &self,
        bound: &'b [Relevant],
        request: &Request,
        attributes: &Attributes<'_>,
    ) -> (Vec<&'b Relevant>, Answer) {
        let namespace = || self.reader.get(row("", "v1", "namespaces")?, "", &request.namespace);
        let candidate = Candidate {
            request,
            resource: attributes.resource,
            object: attributes.object.as_deref(),
            old: attributes.old,
            namespace: &namespace,
        };
        let (mut found, mut answer) = (Vec::new(), Answer::default());
        let mut seen: HashMap<&PolicyId, bool> = HashMap::new();
        for relevant in bound {
            let policy = &relevant.policy;
            let known = seen.get(&policy.id).copied();
            let about = known.unwrap_or_else(|| {
                let about = matches(policy.spec().match_constraints(), &candidate).unwrap_or_else(|why| {
                    answer.denials.extend(misconfigured(policy, None, &why.to_string()));
                    false
                });
                seen.insert(&policy.id, about);
                about
            });
            if !about {
                continue;
            }
            match matches(spec(&relevant.binding).match_resources(), &candidate) {
                Ok(true) => found.push(relevant),
                Ok(false) => {}
                Err(why) => {
                    answer.denials.extend(misconfigured(policy, Some(relevant.binding.name()), &why.to_string()))
                }
            }
        }
        (found, answer)
    }

    /// Builds the question and evaluates it, in another process if one answers.
    async fn judge(
        &self,
        found: Vec<&Relevant>,
        request: Request,
        attributes: &Attributes<'_>,
    ) -> Result<Answer, Status> {
        let (mut asked, mut unasked) = (Vec::new(), Answer::default());
        for Relevant { policy, binding } in &found {
            let spec = spec(binding);
            let params = params::collect(&self.reader, policy.spec().param_kind(), spec.param_ref(), &request).await?;
            match params {
                Ok(params) => asked.push(BoundPolicy {
                    policy: policy.id.clone(),
                    binding: binding.name().to_owned(),
                    actions: spec.validation_actions().iter().filter_map(Action::from_word).collect(),
                    params,
                }),
                Err(why) => {
                    let binding = why.of_binding.then_some(binding.name());
                    unasked.denials.extend(misconfigured(policy, binding, &why.text));
                }
            }
        }
        let policies: HashMap<PolicyId, Arc<Policy>> =
            found.iter().map(|relevant| (relevant.policy.id.clone(), Arc::clone(&relevant.policy))).collect();
        let question = Question { input: self.input(request, attributes), asked };
        let elsewhere = match &attributes.bus {
            Some(bus) => {
                let answer = self.elsewhere.judge(bus, &question, &policies).await;
                if seeded_bug!("nobody_judges_silence") { Some(answer.unwrap_or_default()) } else { answer }
            }
            None => None,
        };
        let mut answer = elsewhere
            .unwrap_or_else(|| judge(&question, &policies, attributes.authorizer.map(UserPermissions::authorizer)));
        answer.denials.splice(0..0, unasked.denials);
        Ok(answer)
    }

    /// Returns the objects of the request as clients would read them.
    fn input(&self, request: Request, attributes: &Attributes<'_>) -> Input {
        let shown = |obj: &Obj| {
            let mut obj = obj.clone();
            canonical::canonicalize(&mut obj);
            obj
        };
        let inside = !request.namespace.is_empty() && !request.is_of_namespaces();
        let namespaces = row("", "v1", "namespaces").filter(|_| inside);
        let mut namespace = namespaces.and_then(|row| self.reader.get(row, "", &request.namespace));
        if let Some(mut meta) = namespace.as_mut().and_then(Obj::meta_mut) {
            // Only fields with stable meaning are visible to expressions.
            meta.clear_managed_fields().clear_owner_references().clear_self_link();
        }
        Input { request, object: attributes.object.as_deref().map(shown), old: attributes.old.map(shown), namespace }
    }
}

fn spec(binding: &Obj) -> ValidatingAdmissionPolicyBindingSpec<'_> {
    let binding = binding.view::<ValidatingAdmissionPolicyBinding<'_>>();
    binding.map_or(ValidatingAdmissionPolicyBindingSpec::from_option(None), |binding| binding.spec())
}

/// Whether constraints match; without constraints everything matches.
fn matches(constraints: Option<MatchResources<'_>>, candidate: &Candidate<'_>) -> Result<bool, NamespaceNotFound> {
    constraints.map_or(Ok(true), |constraints| matching::matches(constraints, candidate))
}

/// Returns the denial for an invalid policy or binding, as its failure policy requires.
fn misconfigured(policy: &Policy, binding: Option<&str>, why: &str) -> Option<Denial> {
    let what = if binding.is_some() { "binding" } else { "policy" };
    (policy.failure == Failure::Fail).then(|| Denial {
        policy: policy.id.name.clone(),
        binding: binding.map(str::to_owned),
        message: format!("failed to configure {what}: {why}"),
        reason: "Invalid".to_owned(),
    })
}

/// Returns the Status of a denial: a 403 with its text, and the reason and code of the validation.
fn refusal(attributes: &Attributes<'_>, denial: &Denial) -> Status {
    let binding = denial.binding.as_ref().map(|name| format!(" with binding '{name}'")).unwrap_or_default();
    let Denial { policy, message, .. } = denial;
    let text = format!("ValidatingAdmissionPolicy '{policy}'{binding} denied request: {message}");
    let mut status = attributes.forbidden(&text).with_cause("", text, "");
    status.reason = Reason::from_word(&denial.reason);
    status.code = match denial.reason.as_str() {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    status
}
