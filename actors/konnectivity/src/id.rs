//! The ids of servers and agents.

/// Length of the longest id, in bytes. A server's id is also part of the name of its Lease.
const MAX_ID: usize = 200;

/// The text is no id of a server or agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no id: must be 1 to {max} visible ASCII characters", max = MAX_ID)]
pub struct InvalidId(String);

/// Checks the id of a server or agent. Ids are sent as metadata, which only visible ASCII survives.
///
/// # Errors
/// When the text is no id.
pub fn check_id(id: &str) -> Result<(), InvalidId> {
    let is_valid = (1..=MAX_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    is_valid.then_some(()).ok_or_else(|| InvalidId(id.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_visible_and_not_too_long() {
        for id in ["a", "Node_1.example", &"x".repeat(MAX_ID)] {
            assert_eq!(check_id(id), Ok(()), "{id}");
        }
        for id in ["", "a b", "ä", "a\n", &"x".repeat(MAX_ID + 1)] {
            assert_eq!(check_id(id), Err(InvalidId(id.to_owned())), "{id}");
        }
    }
}
