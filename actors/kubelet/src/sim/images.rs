//! Invents images, so that the simulated runtime needs no registry.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::quality::FixedState;
use oarlock_schema::Str;
use parking_lot::Mutex;

use crate::cri::{Error, Image, Result};

/// Recently made references, shared by the nodes of a process.
static RECENT: Mutex<Vec<Arc<str>>> = Mutex::new(Vec::new());
const RECENT_MAX: usize = 256;

/// Returns an image for a name; the same name always gives the same digest and size.
pub(super) fn invent(name: &str) -> Result<Image> {
    let (rest, digest) = name.split_once('@').map_or((name, None), |(rest, digest)| (rest, Some(digest)));
    let last = rest.rsplit('/').next().unwrap_or(rest);
    let repository =
        last.split_once(':').map_or(rest, |(_, tag)| rest.get(..rest.len() - tag.len() - 1).unwrap_or(rest));
    if repository.is_empty() || repository.contains(char::is_whitespace) || repository.chars().any(char::is_uppercase) {
        return Err(Error::Failed(format!("failed to parse image reference \"{name}\": invalid reference format")));
    }
    let word = |seed| FixedState::with_seed(seed).hash_one(name);
    let digest = digest.map_or_else(
        || format!("sha256:{:016x}{:016x}{:016x}{:016x}", word(1), word(2), word(3), word(4)),
        str::to_owned,
    );
    let id = shared(&format!("{}@{digest}", full(repository)));
    let size = 1_000_000 + word(5) % 199_000_000;
    Ok(Image {
        own: id.clone(),
        id,
        names: vec![name.into()],
        size,
        user: None,
        username: Str::default(),
        pinned: false,
    })
}

/// Returns the name with the default registry of a short name.
fn full(repository: &str) -> String {
    match repository.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => repository.to_owned(),
        Some(_) => format!("docker.io/{repository}"),
        None => format!("docker.io/library/{repository}"),
    }
}

fn shared(reference: &str) -> Arc<str> {
    let mut recent = RECENT.lock();
    if let Some(known) = recent.iter().find(|known| ***known == *reference) {
        return known.clone();
    }
    if recent.len() >= RECENT_MAX {
        recent.clear();
    }
    let made: Arc<str> = reference.into();
    recent.push(made.clone());
    made
}
