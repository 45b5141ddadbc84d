//! Proofs of answers: signatures with the answering role's key over question and answer.
//!
//! nats-server checks permissions only on connections of its own clients and trusts what other servers send over routes. A foreign or compromised server could therefore ask
//! and answer as any member. Members create and check proofs themselves, so servers can only lose messages.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use oarlock_seeded_bug::seeded_bug;
use prost::Message;
use sha2::{Digest, Sha256};

use crate::credentials::{self, Seed};
use crate::error::AskError;
use crate::proto::bus::v1 as wire;
use crate::role::Role;
use crate::subject::Subject;

/// Prefix of every signed proof; no other signature with these keys can cover it, because a server's login challenge is text without a zero byte.
const CONTEXT: &[u8] = b"oarlock.bus.v1.Answer\0";

/// Public keys of roles. Nodes have keys of their own and make no proofs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleKeys(BTreeMap<Role, String>);

/// Error for a text that is no list of roles and public keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("public keys of roles: {0:?} is no line of a role and its key")]
pub struct BadRoleKeys(String);

impl RoleKeys {
    /// Creates a set from role and key pairs.
    pub fn new(keys: impl IntoIterator<Item = (Role, String)>) -> Self {
        Self(keys.into_iter().collect())
    }

    /// Parses a file's text: one line per role, with its name and its key. Empty lines and comments (`#`) are ignored.
    ///
    /// # Errors
    /// The first malformed line.
    pub fn parse(text: &str) -> Result<Self, BadRoleKeys> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let key = |line: &str| {
            let (role, key) = line.split_once(char::is_whitespace)?;
            let role = Role::from_token(role).filter(|role| *role != Role::Node)?;
            let key = key.trim();
            credentials::is_public_key(key).then(|| (role, key.to_owned()))
        };
        lines.map(|line| key(line).ok_or_else(|| BadRoleKeys(line.to_owned()))).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the key of a role, if known.
    #[must_use]
    pub fn of(&self, role: Role) -> Option<&str> {
        self.0.get(&role).map(String::as_str)
    }
}

/// Writes the file format of [`RoleKeys::parse`].
impl fmt::Display for RoleKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("# Public keys of the roles on the bus: an answer that has to be proven counts with a signature of its role's key.\n")?;
        self.0.iter().try_for_each(|(role, key)| writeln!(f, "{role} {key}"))
    }
}

/// Identifies a question in a proof: the digest of the whole envelope, whose `id` is unique.
pub(crate) type QuestionDigest = [u8; 32];

pub(crate) fn asked(envelope: &[u8]) -> QuestionDigest {
    Sha256::digest(envelope).into()
}

fn statement(subject: &Subject, asked: &QuestionDigest, done: &wire::Done) -> Vec<u8> {
    let mut text = CONTEXT.to_vec();
    text.extend_from_slice(subject.as_str().as_bytes());
    text.push(0);
    text.extend_from_slice(asked);
    text.extend_from_slice(&done.encode_to_vec());
    text
}

/// Signs an answer; empty without a usable key, which the asker treats as unproven.
pub(crate) fn sign(seed: &Seed, subject: &Subject, asked: &QuestionDigest, done: &wire::Done) -> Vec<u8> {
    seed.sign(&statement(subject, asked, done)).unwrap_or_default()
}

/// Checks the proof of an answer.
///
/// # Errors
/// [`AskError::Unproven`].
pub(crate) fn check(
    key: &str,
    subject: &Subject,
    asked: &QuestionDigest,
    done: &wire::Done,
    proof: &[u8],
) -> Result<(), AskError> {
    if seeded_bug!("judge_believes_anybody") || credentials::verify(key, &statement(subject, asked, done), proof) {
        return Ok(());
    }
    let mut why = format!("the answer to an ask on {subject} ");
    let _ = match proof {
        [] => write!(why, "has no proof"),
        _ => write!(why, "was not signed by the role's key"),
    };
    Err(AskError::Unproven(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_were_written_and_nothing_else_is() {
        let (judge, server) = (Seed::generate().unwrap(), Seed::generate().unwrap());
        let keys = [(Role::Admission, &judge), (Role::ApiServer, &server)];
        let keys = RoleKeys::new(keys.map(|(role, seed)| (role, seed.public_key().to_owned())));
        assert_eq!(RoleKeys::parse(&keys.to_string()), Ok(keys.clone()));
        assert_eq!(keys.of(Role::Admission), Some(judge.public_key()));
        assert_eq!(keys.of(Role::Scheduler), None);
        let public = judge.public_key();
        for bad in [
            "admission".to_owned(),
            "admission key".to_owned(),
            format!("judge {public}"),
            format!("node {public}"),
            format!("admission {}", judge.secret()),
            format!("admission {public} {public}"),
        ] {
            assert_eq!(RoleKeys::parse(&bad), Err(BadRoleKeys(bad)));
        }
    }

    #[test]
    fn a_proof_holds_for_one_answer_to_one_ask_by_one_key() {
        let (judge, other) = (Seed::generate().unwrap(), Seed::generate().unwrap());
        let subject = Subject::service(Role::Admission, "policies").unwrap();
        let elsewhere = Subject::service(Role::Admission, "others").unwrap();
        let done = |body: &'static str| wire::Done { r#type: "t".to_owned(), body: body.into() };
        let (ask, answer) = (asked(b"question"), done("denied"));
        let proof = sign(&judge, &subject, &ask, &answer);
        let holds = |key: &Seed, subject, ask: &QuestionDigest, answer: &wire::Done, proof: &[u8]| {
            check(key.public_key(), subject, ask, answer, proof).is_ok()
        };
        assert!(holds(&judge, &subject, &ask, &answer, &proof));
        assert!(!holds(&other, &subject, &ask, &answer, &proof), "another role's key");
        assert!(!holds(&judge, &elsewhere, &ask, &answer, &proof), "another subject");
        assert!(!holds(&judge, &subject, &asked(b"another"), &answer, &proof), "another question");
        assert!(!holds(&judge, &subject, &ask, &done("admitted"), &proof), "another answer");
        assert!(!holds(&judge, &subject, &ask, &answer, &[]), "no proof");
        assert!(!holds(&judge, &subject, &ask, &answer, &proof[1..]), "a part of one");
    }
}
