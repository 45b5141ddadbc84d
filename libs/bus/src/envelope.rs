//! Encoding and strict decoding of message envelopes.

use std::time::Duration;

use bytes::Bytes;
use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::traces::opentelemetry::trace::{SpanContext, TraceState};
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
    /// The sender's trace context; `None` without one, and when its text is no context.
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

/// Decodes and checks the envelope of a message received on a subject.
///
/// # Errors
/// When the envelope is invalid or does not fit the subject.
pub(crate) fn open(subject: &Subject, payload: Bytes) -> Result<OpenedEnvelope, EnvelopeError> {
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
    let trace = context(&sender, &envelope.traceparent).map(Box::new);
    Ok(OpenedEnvelope { sender, budget, trace, type_name: envelope.r#type, body: envelope.body, proof_of })
}

/// Reads a sender's trace context. A text that is none does no harm: the message counts without it, as W3C Trace Context asks of receivers. The flag "sampled" of a node does not count, as in its requests over HTTP:
/// whoever has taken the node's machine over could have every message exported. On subjects that nodes may use, the server checks who sends.
fn context(sender: &Identity, text: &str) -> Option<SpanContext> {
    let context = traceparent::parse(text)?;
    let counts = sender.role() != Role::Node || seeded_bug!("nodes_sample_by_the_bus");
    let flags = context.trace_flags().with_sampled(context.is_sampled() && counts);
    Some(SpanContext::new(context.trace_id(), context.span_id(), flags, true, TraceState::NONE))
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
        open(&Subject::presence(&node(of)), payload)
    }

    #[test]
    fn what_is_sealed_can_be_opened() {
        let opened = presence("n1", "n1").unwrap();
        assert_eq!(opened.trace.map(|trace| trace.trace_id()), traceparent::parse(TRACE).map(|trace| trace.trace_id()));
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
        let open = |envelope: &wire::Envelope| open(&Subject::presence(&node("n1")), envelope.encode_to_vec().into());
        assert!(open(&good).is_ok());
        for version in [0, 2] {
            let error = open(&wire::Envelope { version, ..good.clone() }).unwrap_err();
            assert_eq!(error, EnvelopeError::Version { found: version, own: VERSION });
        }
        for (role, name) in [("", "n1"), ("nodes", "n1"), ("node", ""), ("node", "*"), ("node", "a_b")] {
            let sender = Some(wire::Sender { role: role.to_owned(), name: name.to_owned() });
            assert!(open(&wire::Envelope { sender, ..good.clone() }).is_err(), "{role}/{name}");
        }
        assert!(open(&wire::Envelope { sender: None, ..good }).is_err());
    }

    /// Opens an envelope of a member of a role with this `traceparent` and `more` at its end.
    fn with_context(role: Role, text: &str, more: &[u8]) -> OpenedEnvelope {
        let sender = Identity::new(role, "n1").unwrap();
        let envelope = wire::Envelope {
            version: VERSION,
            sender: Some(wire::Sender { role: role.as_str().to_owned(), name: "n1".to_owned() }),
            traceparent: text.to_owned(),
            r#type: String::full_name(),
            body: "here".to_owned().encode_to_vec().into(),
            ..wire::Envelope::default()
        };
        open(&Subject::presence(&sender), [&envelope.encode_to_vec(), more].concat().into()).unwrap()
    }

    #[test]
    fn a_broken_trace_context_is_left_out_and_the_message_is_read() {
        // A field that no version has, as a `tracestate` would be, of a mebibyte.
        let mut state = Vec::new();
        prost::encoding::bytes::encode(99, &vec![b'x'; 1 << 20], &mut state);
        let long = format!("01-{}", TRACE.trim_start_matches("00-")) + "-" + &"x".repeat(1 << 20);
        let zeros = "00-00000000000000000000000000000000-0000000000000000-01";
        for (text, more) in [("", &[][..]), ("", &state), ("00-0", &[]), (&long, &[]), (zeros, &[]), ("\u{0}ä-\n", &[])]
        {
            let opened = with_context(Role::Scheduler, text, more);
            assert_eq!(opened.trace, None, "{} bytes", text.len());
            assert_eq!(opened.sender, Identity::new(Role::Scheduler, "n1").unwrap());
            assert_eq!(body::<String>(&opened.type_name, opened.body), Ok("here".to_owned()));
        }
        let whole = with_context(Role::Scheduler, TRACE, &state).trace.unwrap();
        assert_eq!(Some(*whole), traceparent::parse(TRACE), "the other fields count for nothing");
    }

    #[test]
    fn a_node_has_no_message_sampled() {
        for role in [Role::ApiServer, Role::Controllers, Role::Scheduler, Role::Node] {
            let trace = with_context(role, TRACE, &[]).trace.unwrap();
            assert_eq!((trace.trace_id(), trace.span_id()), (4.into(), 5.into()));
            assert_eq!(trace.is_sampled(), role != Role::Node, "{role}");
        }
    }

    #[test]
    fn damaged_envelopes_and_answers_are_refused_or_read_soundly() {
        let subject = Subject::presence(&node("n1"));
        let sealed =
            seal(&"here".to_owned(), &node("n1"), (1, 2), Duration::from_secs(3), traceparent::parse(TRACE), false);
        let answer = answer(Outcome::Done(done(&"there".to_owned())));
        let (mut refused, mut read) = (0, 0);
        for copy in oarlock_testkit::damaged(1, &sealed, 4000) {
            match open(&subject, copy.into()) {
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
