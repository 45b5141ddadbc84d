//! Encoding and strict decoding of message envelopes.

use std::time::Duration;

use bytes::Bytes;
use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::traces::opentelemetry::trace::SpanContext;
use oarlock_telemetry::traces::traceparent;
use prost::{Message, Name};

use crate::error::{AskError, EnvelopeError};
use crate::proof;
use crate::proto::bus::v1::answer::Outcome;
use crate::proto::bus::v1::{self as wire, FailureCode};
use crate::role::{Identity, Role};
use crate::subject::Subject;

/// Version of envelopes and answers that this code writes and accepts.
const VERSION: u32 = 1;

/// The decoded content of an envelope.
#[derive(Clone, Debug)]
pub(crate) struct OpenedEnvelope {
    pub(crate) sender: Identity,
    pub(crate) budget: Duration,
    /// The sender's trace context; `None` in hints, whose receivers have no use for it.
    pub(crate) trace: Option<Box<SpanContext>>,
    pub(crate) type_name: String,
    pub(crate) body: Bytes,
    /// Digest that identifies the question in the proof of its answer; `None` where the asker wants no proof.
    pub(crate) proof_of: Option<Box<proof::QuestionDigest>>,
}

pub(crate) fn seal<M: Name>(
    message: &M,
    sender: &Identity,
    id: (u64, u64),
    budget: Duration,
    trace: Option<SpanContext>,
    wants_proof: bool,
) -> Bytes {
    let (process, number) = id;
    let envelope = wire::Envelope {
        version: VERSION,
        id: [process.to_be_bytes(), number.to_be_bytes()].concat().into(),
        sender: Some(wire::Sender { role: sender.role().as_str().to_owned(), name: sender.name().to_owned() }),
        budget_us: micros(budget),
        traceparent: trace.as_ref().and_then(traceparent::text).unwrap_or_default(),
        r#type: M::full_name(),
        body: message.encode_to_vec().into(),
        wants_proof,
    };
    envelope.encode_to_vec().into()
}

/// Decodes and checks the envelope of a hint received on a subject.
///
/// # Errors
/// When the envelope is invalid or does not fit the subject.
pub(crate) fn open_hint(subject: &Subject, payload: Bytes) -> Result<OpenedEnvelope, EnvelopeError> {
    open(subject, payload).map(|(opened, _)| opened)
}

/// Decodes and checks the envelope of an ask received on a subject, with its trace context.
///
/// # Errors
/// As [`open_hint`], and when the text of the trace context is none.
pub(crate) fn open_ask(subject: &Subject, payload: Bytes) -> Result<OpenedEnvelope, EnvelopeError> {
    let (opened, traceparent) = open(subject, payload)?;
    if traceparent.is_empty() {
        return Ok(opened);
    }
    match traceparent::parse(&traceparent) {
        Some(trace) => Ok(OpenedEnvelope { trace: Some(Box::new(trace)), ..opened }),
        None => Err(EnvelopeError::Trace { text: traceparent }),
    }
}

/// Decodes and checks an envelope; returns the text of its trace context too, which is empty without one.
fn open(subject: &Subject, payload: Bytes) -> Result<(OpenedEnvelope, String), EnvelopeError> {
    let envelope = wire::Envelope::decode(payload.clone()).map_err(EnvelopeError::Undecodable)?;
    if envelope.version != VERSION {
        return Err(EnvelopeError::Version { found: envelope.version, own: VERSION });
    }
    let sender = envelope.sender.unwrap_or_default();
    let role = Role::from_token(&sender.role).ok_or(EnvelopeError::Role(sender.role))?;
    let sender = Identity::new(role, &sender.name)?;
    // The server checks who publishes on this subject; the envelope's sender is only a claim.
    if subject.sender().is_some_and(|named| !impostor_allowed() && named != sender) {
        return Err(EnvelopeError::Impostor { sender, subject: subject.clone() });
    }
    let budget = Duration::from_micros(envelope.budget_us);
    let proof_of = envelope.wants_proof.then(|| Box::new(proof::asked(&payload)));
    let (type_name, body) = (envelope.r#type, envelope.body);
    Ok((OpenedEnvelope { sender, budget, trace: None, type_name, body, proof_of }, envelope.traceparent))
}

fn impostor_allowed() -> bool {
    seeded_bug!("sender_by_its_word")
}

/// Decodes a body of the wanted type.
///
/// # Errors
/// When the body has another type or does not decode.
pub(crate) fn body<M: Name + Default>(type_name: &str, body: Bytes) -> Result<M, EnvelopeError> {
    if type_name != M::full_name() {
        return Err(EnvelopeError::OtherType { found: type_name.to_owned(), wanted: M::full_name() });
    }
    M::decode(body).map_err(|source| EnvelopeError::Body { type_name: type_name.to_owned(), source })
}

/// Encodes an answer.
pub(crate) fn answer(outcome: Outcome) -> Bytes {
    wire::Answer { version: VERSION, outcome: Some(outcome), proof: Bytes::new() }.encode_to_vec().into()
}

/// Encodes a handler's answer with its proof.
pub(crate) fn proven(done: wire::Done, proof: Vec<u8>) -> Bytes {
    wire::Answer { version: VERSION, outcome: Some(Outcome::Done(done)), proof: proof.into() }.encode_to_vec().into()
}

pub(crate) fn done<M: Name>(message: &M) -> wire::Done {
    wire::Done { r#type: M::full_name(), body: message.encode_to_vec().into() }
}

pub(crate) fn failure(code: FailureCode, message: impl Into<String>) -> Outcome {
    Outcome::Failure(wire::Failure { code: code.into(), message: message.into() })
}

pub(crate) fn overloaded(retry_after: Duration) -> Outcome {
    Outcome::Overloaded(wire::Overloaded { retry_after_us: micros(retry_after) })
}

/// Decodes an answer of type `A`, if `proven` accepts its proof.
///
/// # Errors
/// Why there is no usable `A`.
pub(crate) fn outcome<A: Name + Default>(
    payload: Bytes,
    proven: impl FnOnce(&wire::Done, &[u8]) -> Result<(), AskError>,
) -> Result<A, AskError> {
    let answer = wire::Answer::decode(payload).map_err(|error| AskError::Garbled(error.to_string()))?;
    if answer.version != VERSION {
        return Err(AskError::Garbled(format!("answer of version {}; this is {VERSION}", answer.version)));
    }
    match answer.outcome {
        Some(Outcome::Done(done)) => proven(&done, &answer.proof)
            .and_then(|()| body(&done.r#type, done.body).map_err(|error| AskError::Garbled(error.to_string()))),
        Some(Outcome::Overloaded(o)) => {
            Err(AskError::Overloaded { retry_after: Duration::from_micros(o.retry_after_us) })
        }
        Some(Outcome::WrongEpoch(wrong)) => {
            Err(AskError::WrongEpoch { current: (wrong.current != 0).then_some(Revision(wrong.current)) })
        }
        Some(Outcome::Expired(_)) => Err(AskError::Expired),
        Some(Outcome::Stopping(_)) => Err(AskError::Stopping),
        Some(Outcome::Failure(failure)) => Err(AskError::Failed { code: failure.code(), message: failure.message }),
        None => Err(AskError::Garbled("an answer without an outcome".to_owned())),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> Identity {
        Identity::new(Role::Node, name).unwrap()
    }

    const TRACE: &str = "00-00000000000000000000000000000004-0000000000000005-01";

    fn presence(of: &str, by: &str) -> Result<OpenedEnvelope, EnvelopeError> {
        let payload =
            seal(&"here".to_owned(), &node(by), (1, 2), Duration::from_secs(3), traceparent::parse(TRACE), false);
        open_ask(&Subject::presence(&node(of)), payload)
    }

    #[test]
    fn what_is_sealed_can_be_opened() {
        let opened = presence("n1", "n1").unwrap();
        assert_eq!(opened.trace.as_deref(), traceparent::parse(TRACE).as_ref());
        assert_eq!((opened.sender, opened.budget), (node("n1"), Duration::from_secs(3)));
        assert_eq!(body::<String>(&opened.type_name, opened.body), Ok("here".to_owned()));
    }

    #[test]
    fn nobody_speaks_as_another_where_the_subject_names_the_sender() {
        let error = presence("n1", "n2").unwrap_err();
        assert!(matches!(&error, EnvelopeError::Impostor { sender, .. } if *sender == node("n2")), "{error}");
        assert!(error.to_string().contains("node/n2 speaks as somebody else"), "{error}");
    }

    #[test]
    fn other_versions_roles_and_names_are_refused() {
        let good = wire::Envelope {
            version: 1,
            sender: Some(wire::Sender { role: "node".to_owned(), name: "n1".to_owned() }),
            ..wire::Envelope::default()
        };
        let open =
            |envelope: &wire::Envelope| open_hint(&Subject::presence(&node("n1")), envelope.encode_to_vec().into());
        assert!(open(&good).is_ok());
        for version in [0, 2] {
            let error = open(&wire::Envelope { version, ..good.clone() }).unwrap_err();
            assert_eq!(error, EnvelopeError::Version { found: version, own: VERSION });
        }
        for (role, name) in [("", "n1"), ("nodes", "n1"), ("node", ""), ("node", "*"), ("node", "a_b")] {
            let sender = Some(wire::Sender { role: role.to_owned(), name: name.to_owned() });
            assert!(open(&wire::Envelope { sender, ..good.clone() }).is_err(), "{role}/{name}");
        }
        assert!(open(&wire::Envelope { sender: None, ..good.clone() }).is_err());
        // Only asks have a use for the trace context, so only they are refused for a bad one.
        let bad = wire::Envelope { traceparent: "00-0".to_owned(), ..good };
        assert!(open(&bad).unwrap().trace.is_none());
        let refused = open_ask(&Subject::presence(&node("n1")), bad.encode_to_vec().into()).unwrap_err();
        assert_eq!(refused, EnvelopeError::Trace { text: "00-0".to_owned() });
    }

    #[test]
    fn damaged_envelopes_and_answers_are_refused_or_read_soundly() {
        let subject = Subject::presence(&node("n1"));
        let sealed =
            seal(&"here".to_owned(), &node("n1"), (1, 2), Duration::from_secs(3), traceparent::parse(TRACE), false);
        let answer = answer(Outcome::Done(done(&"there".to_owned())));
        let (mut refused, mut read) = (0, 0);
        for copy in oarlock_testkit::damaged(1, &sealed, 4000) {
            match open_ask(&subject, copy.into()) {
                Ok(opened) => {
                    assert_eq!(opened.sender, node("n1"));
                    read += 1;
                }
                Err(why) => {
                    assert!(!why.to_string().is_empty());
                    refused += 1;
                }
            }
        }
        for copy in oarlock_testkit::damaged(2, &answer, 4000) {
            match outcome::<String>(copy.into(), |_, _| Ok(())) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 1000 && read > 100, "{refused} refused, {read} read");
    }
}
