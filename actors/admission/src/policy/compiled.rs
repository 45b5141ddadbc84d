//! Policies with compiled expressions.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use oarlock_apis::admissionregistration::expressions::{self, ResultType};
use oarlock_cel::{Env, Program, Type};
use oarlock_codec::Mode;
use oarlock_schema::views::admissionregistration_v1 as v1;
use oarlock_schema::{Obj, type_named};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::wire::ObjectError;

/// The schema's name of the type.
const POLICY_TYPE: &str = "admissionregistration/v1.ValidatingAdmissionPolicy";

/// The identity of one generation of a policy.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct PolicyId {
    /// The policy's name.
    pub name: String,
    /// The policy's uid.
    pub uid: String,
    /// The generation; incremented with every change of the spec.
    pub generation: i64,
}

/// How a failure of the policy itself affects a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The request is refused.
    Fail,
    /// The policy is ignored.
    Ignore,
}

/// A policy with compiled expressions.
#[derive(Debug)]
pub struct Policy {
    /// The policy's identity.
    pub id: PolicyId,
    /// How failures of the policy are treated.
    pub failure: Failure,
    pub(super) conditions: Vec<Expression>,
    pub(super) variables: Vec<Variable>,
    pub(super) validations: Vec<Validation>,
    pub(super) annotations: Vec<Annotation>,
    obj: Obj,
    /// The policy's digest and JSON, computed when first sent.
    source: OnceLock<(Bytes, Bytes)>,
    asks_rights: AtomicBool,
}

/// The source text of an expression, and the compiled form or the compile error: another version may have accepted the text.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) text: String,
    pub(super) program: Result<Program, String>,
}

#[derive(Debug)]
pub(super) struct Variable {
    /// The variable's name in expressions.
    pub(super) name: String,
    pub(super) expression: Expression,
}

#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Expression,
    pub(super) message: String,
    pub(super) message_expression: Option<Expression>,
    pub(super) reason: String,
}

#[derive(Debug)]
pub(super) struct Annotation {
    pub(super) key: String,
    pub(super) value: Expression,
}

impl Expression {
    fn compile(text: &str, env: &Env, gives: ResultType) -> Self {
        Self { text: text.to_owned(), program: expressions::compile(text, env, gives) }
    }
}

/// Returns the SHA-256 of a policy's JSON, the policy's name between processes.
pub(super) fn digest(json: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&Sha256::digest(json))
}

impl Policy {
    /// Returns the identity of a policy object.
    #[must_use]
    pub fn id_of(obj: &Obj) -> PolicyId {
        let meta = obj.meta();
        PolicyId { name: meta.name().to_owned(), uid: meta.uid().to_owned(), generation: meta.generation() }
    }

    /// Compiles a policy object.
    #[must_use]
    pub fn compile(obj: Obj) -> Self {
        let policy = obj.view::<v1::ValidatingAdmissionPolicy<'_>>();
        let spec = policy.map_or(v1::ValidatingAdmissionPolicySpec::from_option(None), |policy| policy.spec());
        let params = spec.param_kind().is_some();
        let mut env = expressions::with_variables(expressions::environment(params, true));
        let mut messages = expressions::with_variables(expressions::environment(params, false));
        let mut variables = Vec::new();
        for variable in spec.variables().iter() {
            let (name, text) = (expressions::variable(variable.name()), variable.expression());
            let expression = Expression::compile(text, &env, ResultType::Anything);
            let ty = expression.program.as_ref().map_or(Type::Dyn, |program| program.result().clone());
            env.declare(name.clone(), ty.clone());
            messages.declare(name.clone(), ty);
            variables.push(Variable { name, expression });
        }
        let conditions = spec.match_conditions().iter();
        let validations = spec.validations().iter().map(|validation| {
            let text = validation.message_expression();
            Validation {
                expression: Expression::compile(validation.expression(), &env, ResultType::Bool),
                message: validation.message().trim().to_owned(),
                message_expression: (!text.is_empty()).then(|| Expression::compile(text, &messages, ResultType::Text)),
                reason: validation.reason().unwrap_or("Invalid").to_owned(),
            }
        });
        let annotations = spec.audit_annotations().iter().map(|annotation| Annotation {
            key: annotation.key().to_owned(),
            value: Expression::compile(annotation.value_expression(), &env, ResultType::TextOrNull),
        });
        Self {
            id: Self::id_of(&obj),
            failure: if spec.failure_policy() == Some("Ignore") { Failure::Ignore } else { Failure::Fail },
            conditions: conditions.map(|c| Expression::compile(c.expression(), &env, ResultType::Bool)).collect(),
            variables,
            validations: validations.collect(),
            annotations: annotations.collect(),
            obj,
            source: OnceLock::new(),
            asks_rights: AtomicBool::new(false),
        }
    }

    /// Compiles a policy from its JSON.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub(super) fn read(json: &[u8]) -> Result<Self, ObjectError> {
        let ty = type_named(POLICY_TYPE).ok_or_else(|| ObjectError::Type(POLICY_TYPE.to_owned()))?;
        Ok(Self::compile(oarlock_codec::json::decode(json, ty, Mode::Lenient)?.value))
    }

    /// Returns the policy's [`digest`] and JSON.
    pub(super) fn source(&self) -> &(Bytes, Bytes) {
        self.source.get_or_init(|| {
            let json = Bytes::from(oarlock_codec::json::encode(&self.obj).bytes);
            (digest(&json), json)
        })
    }

    /// Whether an expression of this policy is known to use the authorizer.
    pub(super) fn asks_rights(&self) -> bool {
        self.asks_rights.load(Ordering::Relaxed)
    }

    /// Records that an expression of this policy, or of one evaluated with it, has used the authorizer.
    pub(super) fn note_asks_rights(&self) {
        self.asks_rights.store(true, Ordering::Relaxed);
    }

    /// Returns the policy's spec.
    #[must_use]
    pub fn spec(&self) -> v1::ValidatingAdmissionPolicySpec<'_> {
        let policy = self.obj.view::<v1::ValidatingAdmissionPolicy<'_>>();
        policy.map_or(v1::ValidatingAdmissionPolicySpec::from_option(None), |policy| policy.spec())
    }
}
